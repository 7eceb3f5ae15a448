"""Files as `python -m elmoformanylangs test` wrote them: HDF5 by the sentence's tokens, or text."""

from __future__ import annotations

from pathlib import Path

from elmo_model.hdf5_writer import hdf5_writer
from elmo_serve.files.outputs.output_format import Check, Facts, Items, OutputFormat
from elmo_serve.files.sentence import FileError, Sentence


def key(tokens: list[str]) -> str:
    """Return the name of a sentence's dataset: HDF5 gives `.` and `/` a meaning."""
    return "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")


def _write_hdf5(path: Path, items: Items, facts: Facts) -> None:
    with hdf5_writer(path) as (file, check):
        for sentence, vectors in items:
            name = key(sentence.tokens)
            if name not in file:  # a sentence that repeats is written once
                file.create_dataset(name, data=vectors)
                check()


def _write_text(path: Path, items: Items, facts: Facts) -> None:
    """A token a line with the numbers of its vector, all between TABs; a blank line after each."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for sentence, vectors in items:
            if vectors.ndim != 2:
                raise FileError("the text format holds one vector a token: not --all")
            for token, vector in zip(sentence.tokens, vectors.tolist(), strict=True):
                file.write("\t".join((token, *(f"{number:.8f}" for number in vector))) + "\n")
            file.write("\n")


def _check_keys() -> Check:
    def check(number: int, sentence: Sentence) -> None:
        name = key(sentence.tokens)
        if not name or "\0" in name:
            raise FileError(f"sentence {number}, {sentence.text!r:.60}, can be no key in HDF5")

    return check


HDF5 = OutputFormat(_write_hdf5, _check_keys)
TEXT = OutputFormat(_write_text)
