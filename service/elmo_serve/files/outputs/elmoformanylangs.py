"""The files of `python -m elmoformanylangs test`: HDF5 keyed by the tokens, or text."""

from pathlib import Path
from typing import BinaryIO

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs.output_format import (
    Check,
    Facts,
    Items,
    OutputFormat,
    Target,
    path_of,
    refuse_stacks,
)
from elmo_serve.selection import Output


def key(tokens: list[str]) -> str:
    """Return the name of a sentence's dataset. In HDF5 `.` and `/` have a meaning of their own."""
    return "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")


def _write_hdf5(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            name = key(sentence.tokens)
            if name not in file:  # a sentence that repeats is written once
                file.create_dataset(name, data=vectors)
                check()


def _write_text(target: Target, items: Items, facts: Facts) -> None:
    if isinstance(target, Path):
        with target.open("wb") as file:
            _write_lines(file, items)
    else:
        _write_lines(target, items)


def _write_lines(file: BinaryIO, items: Items) -> None:
    """Write one token per line with the numbers of its vector, and a blank line per sentence."""
    for sentence, vectors in items:
        for token, vector in zip(sentence.tokens, vectors.tolist(), strict=True):
            line = "\t".join((token, *(f"{number:.8f}" for number in vector)))
            file.write(line.encode("utf-8") + b"\n")
        file.write(b"\n")


def _check_keys(_output: Output) -> Check:
    def check(sentence: Sentence) -> None:
        if not key(sentence.tokens):
            raise FileError("cannot be a key in HDF5")

    return check


HDF5 = OutputFormat(_write_hdf5, ".hdf5", check=_check_keys)
TEXT = OutputFormat(_write_text, ".txt", check=refuse_stacks, is_stream=True, number_bytes=12)
