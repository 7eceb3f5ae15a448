"""HDF5 as `allennlp elmo` wrote it (AllenNLP 0.9, `commands/elmo.py`).

A float32 dataset a sentence, called by its number; and `sentence_to_index`, one string of JSON that
maps the text of a sentence to its number, the last one where a text repeats. Or, with sentences for
keys, the datasets alone.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import h5py

from elmo_model.hdf5_writer import hdf5_writer
from elmo_serve.files.outputs.hdf5_file import adder
from elmo_serve.files.outputs.output_format import Check, Facts, Items, OutputFormat
from elmo_serve.files.outputs.sentence_index import SentenceIndex
from elmo_serve.files.sentence import FileError, Sentence


def variant(*, forget_sentences: bool, use_sentence_keys: bool) -> OutputFormat:
    """Return the format as these flags of `allennlp elmo` change it."""
    if use_sentence_keys:
        return BY_SENTENCE
    return NUMBERS_ALONE if forget_sentences else NUMBERED


def _write_numbered(path: Path, items: Items, facts: Facts) -> None:
    with closing(SentenceIndex(path.parent)) as index, hdf5_writer(path) as (file, check):
        add = adder(file)
        for number, (sentence, vectors) in enumerate(items):
            add(number, vectors)
            check()
            index.add(sentence.text)
        text = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        text[0] = index.json()


def _write_numbers_alone(path: Path, items: Items, facts: Facts) -> None:
    with hdf5_writer(path) as (file, check):
        add = adder(file)
        for number, (_, vectors) in enumerate(items):
            add(number, vectors)
            check()


def _write_by_sentence(path: Path, items: Items, facts: Facts) -> None:
    with hdf5_writer(path) as (file, check):
        for sentence, vectors in items:
            # A slash makes groups, as it did there: "and/or" is dataset "or" of group "and".
            file.create_dataset(sentence.text, data=vectors)
            check()


def _check_keys() -> Check:
    """Refuse what HDF5 could not hold beside the rest, hours before it is written.

    Keeps a number for each text and for each group, not the texts.
    """
    datasets: set[int] = set()
    groups: set[int] = set()

    def check(number: int, sentence: Sentence) -> None:
        parts = [part for part in sentence.text.split("/") if part not in ("", ".")]
        path = hash(tuple(parts))
        above = {hash(tuple(parts[:depth])) for depth in range(1, len(parts))}
        if not parts or "\0" in sentence.text:
            raise FileError(f"sentence {number}, {sentence.text!r:.60}, can be no key in HDF5")
        if path in datasets:
            raise FileError(f"sentence {number}, {sentence.text!r:.60}, is a key already")
        if path in groups or above & datasets:
            raise FileError(
                f"sentence {number}, {sentence.text!r:.60}: a slash makes a group in HDF5, and a "
                "group and a sentence cannot have one key"
            )
        datasets.add(path)
        groups.update(above)

    return check


NUMBERED = OutputFormat(_write_numbered)
NUMBERS_ALONE = OutputFormat(_write_numbers_alone)
BY_SENTENCE = OutputFormat(_write_by_sentence, _check_keys)
