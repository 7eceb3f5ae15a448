"""Vectors that `elmo embed --all` stored in HDF5, looked up by sentence."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py
import torch
from torch import Tensor

from elmo_model.errors import shown
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import Encode

_INDEX: Final = "sentence_to_index"

_TOLERANCE: Final = 0.02
"""Relative difference of layer 0 up to which a sentence is of this model. float16 rounds by 0.0005;
the vectors of two models differ by more than 1."""


class StoredVectors:
    """The layers of sentences in an HDF5 file of `elmo embed --all` or `allennlp elmo`.

    `keys` has the dataset of each sentence, its tokens joined by spaces.
    """

    def __init__(self, path: Path, file: h5py.File, keys: Mapping[str, str]) -> None:
        self._path, self._file, self._keys = path, file, keys

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map sentences to their layers (L + 1, n + 2, 2P); the boundaries are zeros.

        Raises FitError for a sentence that the file lacks, and for one with other numbers of layers
        or tokens.
        """
        return [self._layers(sentence) for sentence in sentences]

    def check(self, encode: Encode, sentence: Sequence[str]) -> None:
        """Raise FitError unless the vectors of a sentence are those that a model computes.

        Layer 0 alone is compared: it is the same in every precision, and also where the file was
        written with the state of the sentences before.
        """
        (computed,) = encode([sentence])
        layers, width = computed.shape[0], computed.shape[2]
        stored = self._dataset(next(iter(self._keys)))
        if stored.ndim != 3 or (stored.shape[0], stored.shape[2]) != (layers, width):
            raise FitError(
                f"{self._path}: its vectors are {stored.shape}, expected ({layers}, tokens, "
                f"{width}) as elmo embed --all writes them for this model"
            )
        own, right = self._layers(sentence)[0, 1:-1], computed[0, 1:-1].float().cpu()
        if not torch.linalg.norm(own - right) <= _TOLERANCE * torch.linalg.norm(right):
            raise FitError(
                f"{self._path}: its vectors of {shown(' '.join(sentence))} are not those of this "
                "model, expected a file that elmo embed --all wrote with the same model"
            )

    def _layers(self, sentence: Sequence[str]) -> Tensor:
        text = " ".join(sentence)
        if text not in self._keys:
            raise FitError(
                f"{self._path}: has no vectors of the sentence {shown(text)}, of these tokens: "
                "`elmo tokenize` makes the same of a text"
            )
        stored = self._dataset(text)
        if stored.ndim != 3 or stored.shape[1] != len(sentence) or stored.dtype.kind != "f":
            raise FitError(
                f"{self._path}: the vectors of {shown(text)} are {stored.shape} of {stored.dtype}, "
                f"expected (layers, {len(sentence)}, width) of floats"
            )
        layers = torch.zeros(stored.shape[0], len(sentence) + 2, stored.shape[2])
        with _reading(self._path):
            vectors = stored[:]
        layers[:, 1:-1] = torch.from_numpy(vectors)
        return layers

    def _dataset(self, text: str) -> h5py.Dataset:
        key = self._keys[text]
        with _reading(self._path):
            found = self._file.get(key)
        if not isinstance(found, h5py.Dataset):
            raise FitError(
                f"{self._path}: lacks the dataset {shown(key)}, which {_INDEX} names for the "
                f"sentence {shown(text)}"
            )
        return found


@contextmanager
def open_stored_vectors(path: Path) -> Iterator[StoredVectors]:
    """Open an HDF5 file. Raises FitError for another file, and for one without its sentences.

    Errors of the body are its own: its OSError may be that of a file which it writes.
    """
    with _reading(path):
        file = h5py.File(path, "r")
    with file:
        yield StoredVectors(path, file, _keys(path, file))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise FitError for the errors of h5py; a block has calls of h5py alone."""
    try:
        yield
    except (OSError, RuntimeError, LookupError, ValueError, TypeError) as error:
        raise FitError(f"{path}: cannot be read as HDF5: {error}") from error


def _keys(path: Path, file: h5py.File) -> dict[str, str]:
    """Return the dataset of each sentence: by `sentence_to_index`, or named by the sentences."""
    if _INDEX in file:
        keys = {" ".join(line.split()): str(number) for line, number in _index(path, file).items()}
    elif "0" in file and all(name.isdecimal() for name in file):
        raise FitError(
            f"{path}: has no {_INDEX}, expected a file that elmo embed --all wrote without "
            "--forget-sentences"
        )
    else:
        keys = {" ".join(name.split()): name for name in _datasets(file)}
    if not keys:
        raise FitError(f"{path}: holds no vectors")
    return keys


def _index(path: Path, file: h5py.File) -> dict[str, Any]:
    with _reading(path):
        text = file[_INDEX][0]
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FitError(f"{path}: {_INDEX} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise FitError(f"{path}: {_INDEX} is {shown(found)}, expected an object")
    return found


def _datasets(file: h5py.File) -> list[str]:
    """Return the names of all datasets; one of a sentence with a slash lies in a group."""
    names: list[str] = []

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(name)

    file.visititems(add)
    return names
