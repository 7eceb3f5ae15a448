"""Vectors that `elmo embed --all` stored in HDF5, looked up by sentence."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import torch
from torch import Tensor

from elmo_model.fitting.examples import FitError

_INDEX = "sentence_to_index"


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

    def check(self, layers: int, dimension: int) -> None:
        """Raise FitError unless the vectors have so many layers and so many numbers."""
        shape = self._file[next(iter(self._keys.values()))].shape
        if len(shape) != 3 or (shape[0], shape[2]) != (layers, dimension):
            raise FitError(
                f"{self._path}: its vectors are {shape}, expected ({layers}, tokens, {dimension}) "
                "as elmo embed --all writes them for this model"
            )

    def _layers(self, sentence: Sequence[str]) -> Tensor:
        text = " ".join(sentence)
        if text not in self._keys:
            raise FitError(f"{self._path}: has no vectors of the sentence {text!r:.80}")
        stored = self._file[self._keys[text]]
        if stored.ndim != 3 or stored.shape[1] != len(sentence):
            raise FitError(
                f"{self._path}: the vectors of {text!r:.60} are {stored.shape}, expected "
                f"(layers, {len(sentence)}, width)"
            )
        layers = torch.zeros(stored.shape[0], len(sentence) + 2, stored.shape[2])
        layers[:, 1:-1] = torch.from_numpy(stored[:])
        return layers


@contextmanager
def open_stored_vectors(path: Path) -> Iterator[StoredVectors]:
    """Open an HDF5 file. Raises FitError for another file, and for one without its sentences."""
    try:
        with h5py.File(path, "r") as file:
            yield StoredVectors(path, file, _keys(path, file))
    except OSError as error:
        raise FitError(f"{path}: cannot be read as HDF5: {error}") from error


def _keys(path: Path, file: h5py.File) -> dict[str, str]:
    """Return the dataset of each sentence: by `sentence_to_index`, or named by the sentences."""
    if _INDEX in file:
        index = json.loads(file[_INDEX][0])
        keys = {" ".join(line.split()): str(number) for line, number in index.items()}
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


def _datasets(file: h5py.File) -> list[str]:
    """Return the names of all datasets; one of a sentence with a slash lies in a group."""
    names: list[str] = []

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            names.append(name)

    file.visititems(add)
    return names
