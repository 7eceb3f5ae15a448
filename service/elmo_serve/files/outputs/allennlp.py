"""HDF5 in the layout of `allennlp elmo` (AllenNLP 0.9, `commands/elmo.py`).

One float32 dataset per sentence, named by its number from "0" on. `sentence_to_index` is one JSON
string that maps the text of a sentence to its number, to the last one if the text repeats. With
sentences as keys there are only the datasets, named by the sentences.
"""

import json

import h5py

from elmo_model.hdf5_writer import hdf5_writer
from elmo_serve.files.outputs.numbered_datasets import dataset_adder
from elmo_serve.files.outputs.output_format import (
    Check,
    Facts,
    Items,
    OutputFormat,
    Target,
    path_of,
)
from elmo_serve.files.sentence import FileError, Sentence
from elmo_serve.output import Output


def variant(*, forget_sentences: bool, use_sentence_keys: bool) -> OutputFormat:
    """Return the format that these two flags of `allennlp elmo` select."""
    if use_sentence_keys:
        return BY_SENTENCE
    return NUMBERS_ALONE if forget_sentences else NUMBERED


def _write_numbered(target: Target, items: Items, facts: Facts) -> None:
    numbers: dict[str, str] = {}
    with hdf5_writer(path_of(target)) as (file, check):
        add = dataset_adder(file)
        for number, (sentence, vectors) in enumerate(items):
            add(number, vectors)
            check()
            numbers[sentence.text] = str(number)
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps(numbers)


def _write_numbers_alone(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        add = dataset_adder(file)
        for number, (_, vectors) in enumerate(items):
            add(number, vectors)
            check()


def _write_by_sentence(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            # A slash makes groups, as it did in AllenNLP: "and/or" is dataset "or" of group "and".
            file.create_dataset(sentence.text, data=vectors)
            check()


def _check_keys(_output: Output) -> Check:
    """Return a check for keys that HDF5 cannot hold together.

    It keeps a hash for each text and for each group, not the texts.
    """
    datasets: set[int] = set()
    groups: set[int] = set()

    def check(number: int, sentence: Sentence) -> None:
        parts = [part for part in sentence.text.split("/") if part not in ("", ".")]
        path = hash(tuple(parts))
        above = {hash(tuple(parts[:depth])) for depth in range(1, len(parts))}
        name = f"sentence {number}, {sentence.text!r:.60},"
        if not parts or "\0" in sentence.text:
            raise FileError(f"{name} cannot be a key in HDF5")
        if path in datasets:
            raise FileError(f"{name} is a key already")
        if path in groups or above & datasets:
            raise FileError(
                f"{name} cannot be a key: a slash makes a group in HDF5, and a group and a "
                "sentence cannot have the same name"
            )
        datasets.add(path)
        groups.update(above)

    return check


NUMBERED = OutputFormat(_write_numbered)
NUMBERS_ALONE = OutputFormat(_write_numbers_alone)
BY_SENTENCE = OutputFormat(_write_by_sentence, _check_keys)
