"""Files of labelled examples.

For labels of tokens `.conllu`, before `.gz`, `.xz` or `.bz2`, is CoNLL-U; any other file has one
token and its label a line, with blank lines between sentences. For labels of sentences it is a
`.tsv` whose first line names the columns `text` and `label`.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from elmo_model.errors import OptionError, shown
from elmo_model.tasks.examples import Examples, FitError, Kind
from elmo_model.tasks.spans import are_spans, iob2, is_span_label
from elmo_model.text import conll
from elmo_model.text.lines import COMPRESSIONS, lines_of, refuse_learned
from elmo_model.text.tokenizers import Tokenize, TokenizeError

_log = logging.getLogger(__name__)

_CONLLU_COLUMNS: Final = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "deprel": 7}
_TABLES: Final = (".csv", ".jsonl")


@dataclass(frozen=True, slots=True)
class Reading:
    """How files of labelled examples are read.

    `tokenize` splits the texts of sentences. `label` is the name of a field of CoNLL-U, or the
    number of a column, from 0, of a file of columns; None is its last column. `column` is the
    column of its tokens; None is the first one.
    """

    kind: Kind
    tokenize: Tokenize
    label: str | None = None
    column: int | None = None


class Tagged(NamedTuple):
    """A sentence of a file: its tokens, its labels, and the number of the line of each label.

    The labels are one a token, or a single one.
    """

    tokens: Sequence[str]
    labels: Sequence[str]
    lines: Sequence[int]


def read_parts(
    train: Path, test: Path | None, reading: Reading, limit: int | None = None
) -> tuple[Examples, Examples | None]:
    """Read the examples to learn from, the first `limit` sentences, and those to score on.

    The labels of tokens are those of spans if 99 % of all in `train` are: then they become IOB2 in
    both files, and a warning names the first other label, which becomes O. If fewer are, but more
    than half, a warning names the first other one too. A warning says how many sentences have no
    tokens.

    Raises FitError, which names file, line, what was found and what is expected, also for a file
    that nothing can be learned from, and for a test file whose labels are mostly unknown to
    `train`; TextError for a test file that is `train` or has the same bytes, and for a file that is
    not text; and OptionError for an option that has no effect on the file.
    """
    if test is not None:
        refuse_learned(test, [train])
    files = [path for path in (train, test) if path is not None]
    if reading.kind == "token":
        found = [_tagged(path, reading) for path in files]
    else:
        _refuse(train, label=reading.label, column=reading.column)
        found = [list(_texts(path, reading.tokenize)) for path in files]
    is_of_spans = reading.kind == "token" and _are_spans(train, found[0])
    if test is not None and found[0]:
        _refuse_unknown(test, found[1], train, found[0], is_of_spans)
    if is_of_spans:
        found = [_as_iob2(*each) for each in zip(files, found, strict=True)]
    found[0] = found[0][:limit]
    parts = [_examples(reading.kind, sentences, is_of_spans) for sentences in found]
    parts[0].check(str(train))
    for path, examples in zip(files, parts, strict=True):
        if not len(examples):
            raise FitError(f"{path}: holds no example")
        if empty := examples.sentences.count(()):
            _log.warning("%s: sentences without tokens, whose vectors are zeros: %d", path, empty)
    return parts[0], parts[1] if test is not None else None


def _examples(kind: Kind, sentences: Sequence[Tagged], is_of_spans: bool) -> Examples:
    if kind == "sentence":
        return Examples.of_sentences((each.tokens, each.labels[0]) for each in sentences)
    return Examples.of_tokens(
        ((each.tokens, each.labels) for each in sentences), are_spans=is_of_spans
    )


def _are_spans(path: Path, sentences: Sequence[Tagged]) -> bool:
    """Return whether labels of tokens are those of spans; warn where most are, but too few."""
    counts = Counter(label for sentence in sentences for label in sentence.labels)
    others = _other_than_spans(sentences)
    is_of_spans = are_spans(counts)
    inside = counts.total() - counts["O"]
    if not is_of_spans and 2 * len(others) < inside:
        line, label = others[0]
        _log.warning(
            "%s:%d: the label %s is none of a span; found %s such of %s labels, without O, "
            "expected at most 1 %% for span F1",
            *(path, line, shown(label), f"{len(others):,}", f"{inside:,}"),
        )
    return is_of_spans


def _other_than_spans(sentences: Sequence[Tagged]) -> list[tuple[int, str]]:
    """Return the labels that are neither `O` nor one of a span, each with its line."""
    return [
        (line, label)
        for each in sentences
        for label, line in zip(each.labels, each.lines, strict=True)
        if label != "O" and not is_span_label(label)
    ]


def _refuse_unknown(
    test: Path,
    scored: Sequence[Tagged],
    train: Path,
    learned: Sequence[Tagged],
    is_of_spans: bool,
) -> None:
    """Raise FitError where most labels to score on, but `O`, do not occur in the training file.

    Labels of spans are compared by their types: the two files may have other forms of them.
    """

    def name(label: str) -> str:
        return label[1:] if is_of_spans and is_span_label(label) else label

    known = {name(label) for each in learned for label in each.labels}
    others = [
        (line, label)
        for each in scored
        for label, line in zip(each.labels, each.lines, strict=True)
        if label != "O"
    ]
    unknown = [each for each in others if name(each[1]) not in known]
    if 2 * len(unknown) > len(others):
        line, label = unknown[0]
        raise FitError(
            f"{test}:{line}: the label {shown(label)} is not in {train}, which lacks "
            f"{len(unknown):,} of {len(others):,} labels, without O; expected at most half"
        )


def _tagged(path: Path, reading: Reading) -> list[Tagged]:
    """Read the sentences of CoNLL-U, or of a file of columns. Raises FitError and TextError."""
    ending = _ending(path)
    if ending in _TABLES:
        raise FitError(
            f"{path}: its name ends in {ending}, expected CoNLL-U, or a token and its label a line "
            "with columns between TABs or spaces"
        )
    is_conllu = ending == ".conllu"
    read = _conllu(path, reading) if is_conllu else _columns(path, reading)
    try:
        return [
            Tagged(*zip(*((*word, word.line) for word in words), strict=True))
            if words
            else Tagged((), (), ())
            for words in read
        ]
    except conll.ConllError as error:
        raise FitError(f"{path}: {error}") from error


def _columns(path: Path, reading: Reading) -> Iterator[list[conll.Word]]:
    """Yield sentences of words with two columns, the token and its label."""
    label = reading.label or "-1"
    if not label.removeprefix("-").isdecimal():
        raise OptionError(
            f"{path}: --label is {shown(label)}, expected the number of a column, from 0: the "
            "columns of the file have no names"
        )
    columns = reading.column or 0, int(label)
    yield from conll.read(lines_of(path), columns, is_checked=reading.column is None)


def _conllu(path: Path, reading: Reading) -> Iterator[list[conll.Word]]:
    """Yield sentences of words with two columns, the form and the field of the label."""
    _refuse(path, column=reading.column)
    if reading.label not in _CONLLU_COLUMNS:
        expected = ", ".join(_CONLLU_COLUMNS)
        found = "needed:" if reading.label is None else f"{shown(reading.label)}, expected"
        raise FitError(f"{path}: --label is {found} one of {expected}")
    column = _CONLLU_COLUMNS[reading.label]
    for words in conll.read_conllu(lines_of(path)):
        yield [conll.Word((word[conll.FORM], word[column]), word.line) for word in words]


def _as_iob2(path: Path, sentences: Sequence[Tagged]) -> list[Tagged]:
    """Return sentences with their span labels as IOB2; warn of the first other label."""
    others = _other_than_spans(sentences)
    if others:
        line, label = others[0]
        more = f", as are {len(others) - 1} more" if others[1:] else ""
        _log.warning(
            "%s:%d: the label %s is none of a span and is read as O%s",
            *(path, line, shown(label), more),
        )
    return [each._replace(labels=iob2(each.labels)) for each in sentences]


def _texts(path: Path, tokenize: Tokenize) -> Iterator[Tagged]:
    """Yield the tokens and the label of each line of a table. Raises FitError and TextError."""
    if (ending := _ending(path)) != ".tsv":
        raise FitError(f"{path}: its name ends in {ending or 'nothing'}, expected .tsv")
    head: list[str] = []
    for number, line in enumerate(lines_of(path), 1):
        fields = [field.strip() for field in line.split("\t")]
        if not any(fields):
            continue
        place = f"{path}:{number}"
        if "\r" in line:
            raise FitError(f"{place}: has \\r inside; lines end with \\n or \\r\\n")
        if not head:
            head = fields
            if head.count("text") != 1 or head.count("label") != 1:
                names = ", ".join(map(shown, head))
                raise FitError(f"{place}: has the columns {names}; expected text and label")
            continue
        if len(fields) != len(head):
            found = f"number of columns is {len(fields)}"
            raise FitError(f"{place}: {found}, expected {len(head)}: {', '.join(head)}")
        row = dict(zip(head, fields, strict=True))
        if not row["label"]:
            raise FitError(f"{place}: the column label is empty, expected a label")
        try:
            yield Tagged(tokenize(row["text"]).tokens, (row["label"],), (number,))
        except TokenizeError as error:
            raise FitError(f"{place}: {error}") from error


def _refuse(path: Path, **options: object) -> None:
    """Raise OptionError for an option that is given and has no effect on a file."""
    if given := next((name for name, value in options.items() if value is not None), None):
        raise OptionError(
            f"{path}: --{given} has no effect: leave it out, the columns of the file have names"
        )


def _ending(path: Path) -> str:
    inner = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    return inner.suffix.lower()
