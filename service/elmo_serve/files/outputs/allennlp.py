"""HDF5 in the layout of `allennlp elmo` (AllenNLP 0.9, `commands/elmo.py`).

One float32 dataset per sentence, named by its number from "0" on. `sentence_to_index` is one JSON
string that maps the text of a sentence to its number, to the last one if the text repeats. With
sentences as keys there are only the datasets, named by the sentences. This is also the file of
SeqVec's program (Rostlab/SeqVec 0.4.1), whose keys are the ids of FASTA.
"""

# ruff: noqa: PLC0415 - h5py is imported when a file is written

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elmo_model.files.hdf5_writer import hdf5_writer
from elmo_serve.files.inputs import FileError, Sentence
from elmo_serve.files.outputs.output_format import (
    Check,
    Facts,
    Items,
    OutputFormat,
    Target,
    path_of,
)
from elmo_serve.selection import Output

if TYPE_CHECKING:
    import h5py
    from numpy.typing import NDArray


def variant(*, forget_sentences: bool, use_sentence_keys: bool) -> OutputFormat:
    """Return the format that these two flags of `allennlp elmo` select."""
    if use_sentence_keys:
        return BY_SENTENCE
    return NUMBERS_ALONE if forget_sentences else NUMBERED


def _write_numbered(target: Target, items: Items, facts: Facts, *, has_index: bool = True) -> None:
    import h5py

    numbers: dict[str, str] = {}
    with hdf5_writer(path_of(target)) as (file, check):
        add = dataset_adder(file)
        for number, (sentence, vectors) in enumerate(items):
            add(number, vectors)
            check()
            if has_index:
                numbers[sentence.text] = str(number)
        if has_index:
            index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
            index[0] = json.dumps(numbers)


def _write_by_sentence(target: Target, items: Items, facts: Facts) -> None:
    with hdf5_writer(path_of(target)) as (file, check):
        for sentence, vectors in items:
            # A slash makes groups, as it did in AllenNLP: "and/or" is dataset "or" of group "and".
            file.create_dataset(sentence.text, data=vectors)
            check()


def dataset_adder(file: h5py.File) -> Callable[[int, NDArray[Any]], None]:
    """Return a function that adds an array as the dataset of a number, in half of h5py's time.

    The file is the same as by `create_dataset`, which computes type, space and properties anew for
    each dataset.
    """
    import numpy as np
    from h5py import h5d, h5p, h5s, h5t

    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    cached_type = functools.cache(functools.partial(h5t.py_create, logical=True))
    cached_space = functools.lru_cache(maxsize=1024)(h5s.create_simple)

    def add(number: int, array: NDArray[Any]) -> None:
        array = np.ascontiguousarray(array)
        dtype = cached_type(array.dtype)
        space = cached_space(array.shape)
        dataset = h5d.create(file.id, b"%d" % number, dtype, space, properties)
        dataset.write(h5s.ALL, h5s.ALL, array, dtype)

    return add


def _check_keys(_output: Output) -> Check:
    """Return a check for keys that HDF5 cannot hold together.

    It keeps a hash for each text and for each group, not the texts.
    """
    datasets: set[int] = set()
    groups: set[int] = set()

    def check(sentence: Sentence) -> None:
        parts = [part for part in sentence.text.split("/") if part not in ("", ".")]
        key = hash(tuple(parts))
        above = {hash(tuple(parts[:depth])) for depth in range(1, len(parts))}
        if not parts or "\0" in sentence.text or key in datasets | groups or above & datasets:
            raise FileError(
                "cannot be a key in HDF5: it is empty, or a line before it is the same or a group "
                "of it, which a slash makes; expected no sentence keys"
            )
        datasets.add(key)
        groups.update(above)

    return check


NUMBERED = OutputFormat(_write_numbered, ".hdf5", (".hdf5", ".h5"))
NUMBERS_ALONE = OutputFormat(functools.partial(_write_numbered, has_index=False), ".hdf5")
BY_SENTENCE = OutputFormat(_write_by_sentence, ".hdf5", check=_check_keys)
SEQVEC = dataclasses.replace(BY_SENTENCE, holds_pooled=True)
