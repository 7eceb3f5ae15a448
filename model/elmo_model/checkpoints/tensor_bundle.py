"""TensorFlow's checkpoints of version 2, read without TensorFlow: an index and its shards of data.

The index is a table as LevelDB writes them (`table_format.md` there), from names to entries in
protocol buffers (TensorFlow `tensor_bundle.proto`); the data are raw. Every checksum is verified.
"""

import math
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.crc32c import masked
from elmo_model.checkpoints.source import Source

ENDING = ".index"

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48  # bytes
_TRAILER = 5  # of a block: its compression and its checksum
_GREATEST_INDEX = 64 << 20  # bytes
_COMPRESSIONS = {1: "snappy", 2: "zlib"}
_FLOAT = 1  # DT_FLOAT in TensorFlow's types.proto
_TYPES = {2: "float64", 3: "int32", 9: "int64", 14: "bfloat16", 19: "float16", 7: "string"}


def is_index(path: Path) -> bool:
    """Tell whether a file ends as such a table does."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - len(_MAGIC)))
            return stream.read() == _MAGIC
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """Where an array lies: type, shape, shard, first byte, bytes and checksum."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


class Bundle:
    """The arrays of an open checkpoint by name, each read when it is asked for."""

    def __init__(self, source: Source, index: str, streams: ExitStack) -> None:
        self.label = source.label(index)
        self._source = source
        self._prefix = index.removesuffix(ENDING)
        self._streams = streams
        self._open: dict[int, BinaryIO] = {}
        content = source.read(index, _GREATEST_INDEX)
        self._shards, self.entries = _entries(self.label, content)

    def names(self) -> Collection[str]:
        """Return the names of all arrays."""
        return self.entries.keys()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of one."""
        return self.entries[name].shape

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return one. Raises CheckpointError for another type, or data that are not whole."""
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
        held = stream.seek(0, 2)
        if entry.offset + entry.size > held:
            raise CheckpointError(
                f"{shard}: has {held:,} bytes, expected {name} up to byte "
                f"{entry.offset + entry.size:,}"
            )
        stream.seek(entry.offset)
        content = stream.read(entry.size)
        if masked(content) != entry.checksum:
            raise CheckpointError(f"{shard}: {name} has another checksum than expected")
        # a copy: writable, and in this machine's order of bytes
        return np.frombuffer(content, dtype="<f4").reshape(entry.shape).astype(np.float32)

    def _shard(self, number: int) -> tuple[BinaryIO, str]:
        file = f"{self._prefix}.data-{number:05d}-of-{self._shards:05d}"
        label = self._source.label(file)
        if number not in self._open:
            if file not in self._source.files():
                raise CheckpointError(
                    f"{label}: does not exist, expected the data beside the index"
                )
            self._open[number] = self._streams.enter_context(self._source.open(file))
        return self._open[number], label


@contextmanager
def open_bundle(source: Source, index: str) -> Iterator[Bundle]:
    """Open a checkpoint by its index. Raises CheckpointError where that is not whole."""
    with ExitStack() as streams:
        yield Bundle(source, index, streams)


# The index


def _entries(label: str, content: bytes) -> tuple[int, dict[str, BundleEntry]]:
    """Return the number of shards, and all entries."""
    try:
        pairs = dict(_table(label, content))
        shards = _header(label, pairs.pop(b""))
        return shards, {key.decode(): _entry(value) for key, value in pairs.items()}
    except (IndexError, KeyError, ValueError, UnicodeDecodeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{label}: is not a whole index of TensorFlow: {error}") from error


def _table(label: str, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or footer[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it does not end as a table does")
    _, position = _handle(footer, 0)  # of statistics, which are empty
    blocks, _ = _handle(footer, position)
    for _, value in _block(label, content, blocks):
        handle, _ = _handle(value, 0)
        yield from _block(label, content, handle)


def _block(label: str, content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block: each key is the last one's beginning and an end of its own."""
    offset, size = handle
    block = content[offset : offset + size]
    trailer = content[offset + size : offset + size + _TRAILER]
    if len(block) != size or len(trailer) != _TRAILER or size < 4:
        raise ValueError("a block reaches beyond the file")
    if masked(block + trailer[:1]) != int.from_bytes(trailer[1:], "little"):
        raise ValueError("a block has another checksum than expected")
    if trailer[0]:
        kind = _COMPRESSIONS.get(trailer[0], f"number {trailer[0]}")
        raise CheckpointError(f"{label}: a block is compressed by {kind}, expected no compression")
    restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block has more restarts than bytes")
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("a pair reaches beyond its block")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = _varint(content, position)
    size, position = _varint(content, position)
    return (offset, size), position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number has more than ten bytes")


# Protocol buffers


def _header(label: str, content: bytes) -> int:
    fields = dict(_fields(content))
    if fields.get(2, 0) != 0:
        raise CheckpointError(f"{label}: is big-endian, expected little-endian")
    shards = fields.get(1, 0)
    if not isinstance(shards, int) or not 1 <= shards <= 99_999:
        raise ValueError(f"it names {shards!r} shards")
    return shards


def _entry(content: bytes) -> BundleEntry:
    numbers: dict[int, int] = {}
    shape: tuple[int, ...] = ()
    sliced = False
    for field, value in _fields(content):
        if field == 2 and isinstance(value, bytes):
            shape = tuple(_dimension(each) for number, each in _fields(value) if number == 2)
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
    if not isinstance(content, bytes):
        raise ValueError("a dimension is no message")
    size = dict(_fields(content)).get(1, 0)
    if not isinstance(size, int) or size >= 1 << 40:
        raise ValueError(f"a dimension is {size!r:.40}")
    return size


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: an integer, or the bytes of a message."""
    position = 0
    while position < len(content):
        tag, position = _varint(content, position)
        field, kind = tag >> 3, tag & 7
        if kind == 0:
            value, position = _varint(content, position)
            yield field, value
            continue
        if kind == 2:
            length, position = _varint(content, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field is of kind {kind}")
        piece = content[position : position + length]
        if len(piece) != length:
            raise ValueError("a field reaches beyond its message")
        position += length
        yield field, piece if kind == 2 else int.from_bytes(piece, "little")
