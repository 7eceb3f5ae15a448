"""The softmax of a language model: a file of its own, or a part of a published checkpoint.

Vectors do not need it, so it is found first and read when it is asked for.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_model.checkpoints import (
    bilm_tf,
    hdf5,
    native,
    published_pair,
    tensor_bundle,
    vocabulary_file,
)
from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.checkpoint import CheckpointError, check_shape
from elmo_model.checkpoints.source import Source, in_folder, source_at
from elmo_model.errors import shown
from elmo_model.network.row_bytes import to_bytes
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import AlphabetError, WordVocabulary

ENDING = ".softmax.safetensors"
"""The ending of our own file, in place of the `.safetensors` of the model beside it."""

_FORMAT = "elmo-serve-softmax"
_TYPES = {
    "weight": ("F32", "F16", "BF16", "I8"),
    "bias": ("F32",),
    "words": ("U8",),
    "scale": ("F32",),
}
"""The types that the tensors of our own file may have, by safetensors' names."""


@dataclass(frozen=True, slots=True)
class StoredSoftmax:
    """A softmax that was found and is not read yet.

    `total` words are stored, of which the first `words` are used. `revision` is that of the network
    it was trained with, None where the file does not say.
    """

    label: str
    total: int
    words: int
    width: int
    revision: str | None
    load: Callable[[], WordSoftmax]

    def read(self) -> WordSoftmax:
        """Read its first words.

        Raises CheckpointError for a damaged file, and where `<S>`, `</S>` or `<UNK>` is cut off.
        """
        whole, kept = self.load(), slice(self.words)
        if self.words >= len(whole.weight):
            return whole
        try:
            vocabulary = WordVocabulary(whole.vocabulary.words[kept])
        except AlphabetError as error:
            raise CheckpointError(f"the first {self.words:,} words: {error}") from error
        scale = None if whole.scale is None else whole.scale[kept]
        return WordSoftmax(whole.weight[kept], whole.bias[kept], vocabulary, whole.total, scale)

    def of_network(self, width: int, revision: str, words: int | None = None) -> "StoredSoftmax":
        """Return its first words, for a network with P = `width`.

        Raises CheckpointError for the softmax of another network.
        """
        if self.width != width:
            raise CheckpointError(
                f"{self.label}: has rows of {self.width}, expected {width}, the width of a "
                f"direction of the network"
            )
        if self.revision not in (None, revision):
            raise CheckpointError(
                f"{self.label}: belongs to revision {self.revision} of a network, "
                f"expected {revision}"
            )
        return replace(self, words=min(self.total, words or self.total))


def find_softmax(model: Path) -> StoredSoftmax | None:
    """Find the softmax of the checkpoint at a path; None if it has none.

    A published one without a vocabulary, which names its rows, counts as none. Raises
    CheckpointError for a damaged file.
    """
    file = model / native.RUN_FILE if model.is_dir() else model
    if (beside := file.with_suffix(ENDING)).is_file():
        return _native(beside)
    source = source_at(model) or in_folder(model.parent)
    try:
        vocabulary_file.find_vocabulary(source)
    except CheckpointError:
        return None
    if bilm_tf.recognises(model):
        return _in_bundle(model)
    prefix = "" if source.path == model else model.name.partition("weights")[0]
    files = [file for file in source.files if file.endswith(published_pair.SOFTMAX)]
    matching = [file for file in files if PurePosixPath(file).name.startswith(prefix)]
    return _in_hdf5(source, matching[0]) if len(matching) == 1 else None


def open_file(path: Path) -> StoredSoftmax:
    """Find the softmax in a file that was named: our own, HDF5, or the index of TensorFlow.

    Raises CheckpointError where there is none.
    """
    if path.is_file() and hdf5.is_hdf5(path):
        return _in_hdf5(in_folder(path.parent), path.name)
    if path.is_file() and native.recognises(path):
        return _native(path)
    stored = _in_bundle(path) if bilm_tf.recognises(path) else find_softmax(path)
    if stored is None:
        raise CheckpointError(f"{path}: holds no softmax, expected softmax/W and softmax/b")
    return stored


def save(softmax: WordSoftmax, path: Path, revision: str, dtype: torch.dtype = torch.int8) -> None:
    """Write a softmax of the network of this revision to one file, atomically.

    An int8 row has a scale of its own: its largest number is 127. Raises OSError where the disk is
    full, CheckpointError for a word that cannot stand on a line.
    """
    weight, tensors = softmax.rows(slice(None)).detach().cpu(), {}
    if dtype == torch.int8:
        weight, scale = to_bytes(weight)
        tensors["scale"] = scale.flatten()
    text = vocabulary_file.text_of(softmax.vocabulary.words).encode()
    tensors["weight"] = weight.to(dtype).contiguous()
    tensors["bias"] = softmax.bias.detach().cpu().float().contiguous()
    tensors["words"] = torch.from_numpy(np.frombuffer(text, np.uint8).copy())
    header = {"format": _FORMAT, "revision": revision, "total": str(softmax.total)}
    native.write(path, tensors, header)


def _native(path: Path) -> StoredSoftmax:
    with native.opened(path) as file:
        header = file.metadata() or {}
        if header.get("format") != _FORMAT:
            raise CheckpointError(f"{path}: is no softmax of elmo-serve")
        words, width = _tensors(path, file)["weight"].shape
    total = header.get("total", "")
    if not (total.isascii() and total.isdigit()) or len(total) > 9 or int(total) < words:
        raise CheckpointError(
            f"{path}: header total is {shown(total)}, expected a number of at least {words:,}"
        )

    def load() -> WordSoftmax:
        with native.opened(path) as file:
            tensors = _tensors(path, file)
        weight, scale = tensors["weight"], tensors.get("scale")
        if scale is None:
            weight = weight.float()
        try:
            text = tensors["words"].numpy().tobytes().decode()
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{path}: words is not UTF-8: {error}") from error
        vocabulary = _vocabulary(vocabulary_file.lines(text), len(weight), str(path))
        return WordSoftmax(weight, tensors["bias"], vocabulary, int(total), scale)

    return StoredSoftmax(str(path), int(total), words, width, header.get("revision"), load)


def _tensors(path: Path, file: Any) -> dict[str, Tensor]:
    """Map the tensors of our own file. Raises CheckpointError for another type or shape."""
    arrays = native.arrays_in(path, file, _TYPES)
    shape = arrays.sizes("weight", 2)
    expected = {"weight": shape, "bias": shape[:1], "words": arrays.sizes("words", 1)}
    if file.get_slice("weight").get_dtype() == "I8":
        expected["scale"] = shape[:1]
    arrays.refuse_unexpected(expected, "weight")
    return {name: arrays.take(name, each, "weight") for name, each in expected.items()}


def _in_bundle(path: Path) -> StoredSoftmax | None:
    source, index = bilm_tf.find_bundle(path)
    return _published(source, lambda: tensor_bundle.open_bundle(source, index))


def _in_hdf5(source: Source, file: str) -> StoredSoftmax:
    stored = _published(source, lambda: hdf5.datasets(source, file))
    if stored is None:
        raise CheckpointError(f"{source.label(file)}: softmax/W is missing, expected it and b")
    return stored


def _published(
    source: Source, open_arrays: Callable[[], AbstractContextManager[Arrays]]
) -> StoredSoftmax | None:
    """Find `softmax/W` (V, P) and `softmax/b` (V,), whose rows a vocabulary beside them names."""
    with open_arrays() as arrays:
        names = {"/".join(name.split("/")[-2:]): name for name in arrays.shapes}
        if "softmax/W" not in names:
            return None
        shape = arrays.shapes[names["softmax/W"]] or ()
        label = f"{arrays.label}: softmax/W"
        if len(shape) != 2:
            raise CheckpointError(f"{label} has shape {shape}, expected (words, width)")
        check_shape(
            f"{arrays.label}: softmax/b",
            arrays.shapes[names["softmax/b"]] if "softmax/b" in names else None,
            shape[:1],
            "softmax/W",
        )
    file = vocabulary_file.find_vocabulary(source)

    def load() -> WordSoftmax:
        words = vocabulary_file.words_of(source, file)
        vocabulary = _vocabulary(words, shape[0], source.label(file))
        with open_arrays() as arrays:
            weight, bias = (arrays.read(names[f"softmax/{part}"]) for part in "Wb")
        return WordSoftmax(weight, bias, vocabulary, shape[0])

    return StoredSoftmax(label, shape[0], shape[0], shape[1], None, load)


def _vocabulary(words: list[str], rows: int, label: str) -> WordVocabulary:
    if len(words) != rows:
        raise CheckpointError(
            f"{label}: holds {len(words):,} words, expected {rows:,}, one a row of the softmax"
        )
    try:
        return WordVocabulary(tuple(words))
    except AlphabetError as error:
        raise CheckpointError(f"{label}: {error}") from error
