"""TensorFlow checkpoints of version 2, read without TensorFlow: an index and shards of raw data.

The index is a LevelDB table that maps the name of an array to a protocol buffer (TensorFlow
`tensor_bundle.proto`). Every checksum is verified.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.layout import Arrays
from elmo_model.checkpoints.leveldb_table import masked_crc32c, pairs, varint
from elmo_model.checkpoints.source import Source
from elmo_model.errors import shown

ENDING = ".index"

_MAX_INDEX = 64 << 20  # bytes
_MAX_AXES = 8
_FLOAT = 1  # DT_FLOAT in TensorFlow's types.proto
_TYPES = {2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16", 7: "string"}


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """An array in the index: type, shape, shard, offset and size in bytes, and checksum."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


class _Bundle:
    """The index of an open checkpoint, and its shards, which are opened on demand."""

    def __init__(self, source: Source, index: str, streams: ExitStack) -> None:
        self.label = source.label(index)
        self._source = source
        self._prefix = index.removesuffix(ENDING)
        self._streams = streams
        self._open: dict[int, BinaryIO] = {}
        content = source.read(index, _MAX_INDEX)
        self._shards, self.entries = _entries(self.label, content)

    def read(self, name: str) -> Tensor:
        """Return an array. Raises CheckpointError if it is not float32, is sliced or damaged."""
        entry, label = self.entries[name], f"{self.label}: {name}"
        if entry.dtype != _FLOAT:
            kind = _TYPES.get(entry.dtype, f"number {entry.dtype}")
            raise CheckpointError(f"{label} is of type {kind}, expected float32")
        if entry.sliced:
            raise CheckpointError(f"{label} is cut into slices, expected one piece")
        if entry.size != 4 * math.prod(entry.shape):
            raise CheckpointError(
                f"{label} has {entry.size:,} bytes, expected {4 * math.prod(entry.shape):,}"
            )
        stream, shard = self._shard(entry.shard)
        length = stream.seek(0, 2)
        if entry.offset + entry.size > length:
            raise CheckpointError(
                f"{shard}: has {length:,} bytes, expected {name} up to byte "
                f"{entry.offset + entry.size:,}"
            )
        stream.seek(entry.offset)
        content = stream.read(entry.size)
        if masked_crc32c(content) != entry.checksum:
            raise CheckpointError(f"{shard}: {name} has another checksum than expected")
        # A copy is writable, and in the byte order of this machine.
        array = np.frombuffer(content, dtype="<f4").reshape(entry.shape)
        return torch.from_numpy(array.astype(np.float32))

    def _shard(self, number: int) -> tuple[BinaryIO, str]:
        file = f"{self._prefix}.data-{number:05d}-of-{self._shards:05d}"
        label = self._source.label(file)
        if number not in self._open:
            if file not in self._source.files:
                raise CheckpointError(f"{label}: does not exist, expected the data with the index")
            self._open[number] = self._streams.enter_context(self._source.open(file))
        return self._open[number], label


@contextmanager
def open_bundle(source: Source, index: str) -> Iterator[Arrays]:
    """Open a checkpoint by its index. Raises CheckpointError if the index is damaged."""
    with ExitStack() as streams:
        bundle = _Bundle(source, index, streams)
        shapes = {name: entry.shape for name, entry in bundle.entries.items()}
        yield Arrays(bundle.label, shapes, bundle.read)


def _entries(label: str, content: bytes) -> tuple[int, dict[str, BundleEntry]]:
    """Return the number of shards, and the entries by name."""
    try:
        values = dict(pairs(label, content))
        shards = _header(label, values.pop(b""))
        return shards, {key.decode(): _entry(value) for key, value in values.items()}
    except (IndexError, KeyError, ValueError, UnicodeDecodeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{label}: is not a whole index of TensorFlow: {error}") from error


# The three messages of tensor_bundle.proto, by the numbers of their fields.


def _header(label: str, content: bytes) -> int:
    """Return the number of shards from a BundleHeaderProto."""
    fields = dict(_fields(content))
    if fields.get(2, 0) != 0:
        raise CheckpointError(f"{label}: is big-endian, expected little-endian")
    shards = fields.get(1, 0)
    if not isinstance(shards, int) or not 1 <= shards <= 99_999:
        raise ValueError(f"it names {shards!r} shards")
    return shards


def _entry(content: bytes) -> BundleEntry:
    """Parse a BundleEntryProto."""
    numbers: dict[int, int] = {}
    shape: tuple[int, ...] = ()
    sliced = False
    for field, value in _fields(content):
        if field == 2 and isinstance(value, bytes):
            shape = tuple(_dimension(each) for number, each in _fields(value) if number == 2)
            if len(shape) > _MAX_AXES:
                raise ValueError(f"an array has {len(shape):,} axes")
        elif field == 7:
            sliced = True
        elif isinstance(value, int):
            numbers[field] = value
    return BundleEntry(
        dtype=numbers.get(1, 0),
        shape=shape,
        shard=numbers.get(3, 0),
        offset=numbers.get(4, 0),
        size=numbers.get(5, 0),
        checksum=numbers.get(6, 0),
        sliced=sliced,
    )


def _dimension(content: int | bytes) -> int:
    """Return the size of a TensorShapeProto.Dim."""
    if not isinstance(content, bytes):
        raise ValueError("a dimension is no message")
    size = dict(_fields(content)).get(1, 0)
    if not isinstance(size, int) or size >= 1 << 40:
        raise ValueError(f"a dimension is {shown(size)}")
    return size


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field: an integer, or the bytes of a message."""
    position = 0
    while position < len(content):
        tag, position = varint(content, position)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, position = varint(content, position)
            yield field, value
            continue
        if kind == 2:
            length, position = varint(content, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field is of kind {kind}")
        piece = content[position : position + length]
        if len(piece) != length:
            raise ValueError("a field reaches beyond its message")
        position += length
        yield field, piece if kind == 2 else int.from_bytes(piece, "little")
