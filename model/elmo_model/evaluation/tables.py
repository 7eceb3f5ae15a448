"""Tab-separated tables whose first line names the columns."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from elmo_model.evaluation.score import EvaluationError
from elmo_model.text_files import open_text


def read_columns(path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the named columns of each line.

    Raises EvaluationError for a missing column or a line of another length, TextError for a file
    that is no text.
    """
    with open_text(path) as lines:
        head = next(lines, "").rstrip("\r\n").split("\t")
        if missing := [column for column in columns if column not in head]:
            raise EvaluationError(f"{path}: has no column {missing[0]}, found {', '.join(head)}")
        chosen = [head.index(column) for column in columns]
        for number, line in enumerate(lines, 2):
            fields = line.rstrip("\r\n").split("\t")
            if len(fields) != len(head):
                raise EvaluationError(
                    f"{path}: line {number} has {len(fields)} columns, expected {len(head)}"
                )
            yield [fields[column] for column in chosen]


def place(path: Path, index: str, sentence: Sequence[str]) -> int:
    """Return the place of a token, counted from 0. Raises EvaluationError outside the sentence."""
    if not index.isdecimal() or int(index) >= len(sentence):
        raise EvaluationError(
            f"{path}: token {index!r:.20} of a sentence of {len(sentence)} tokens: "
            f"{' '.join(sentence):.80}"
        )
    return int(index)
