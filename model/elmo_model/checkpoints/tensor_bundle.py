"""TensorFlow checkpoints of version 2, read without TensorFlow: an index and shards of raw data.

The index is a LevelDB table (its `table_format.md`) without compression, which maps the name of an
array to a protocol buffer (TensorFlow `tensor_bundle.proto`). Every checksum is verified.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import BinaryIO

import google_crc32c
import numpy as np
import torch
from torch import Tensor

from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import MAX_ENTRIES, Source
from elmo_model.errors import shown

ENDING = ".index"

_MAX_INDEX = 64 << 20  # bytes
_MAX_AXES, _MAX_DIMENSION = 8, 1 << 40
_FLOAT = 1  # DT_FLOAT in TensorFlow's types.proto
_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48  # bytes
_TRAILER = 5  # bytes after a block: its compression and its checksum
_MAX_KEY = 4096  # bytes
_MAX_MESSAGE = 1 << 16  # bytes; those of an array have about 50
_MASK = 0xA282EAD8
_TYPE, _SHAPE, _SHARD, _OFFSET, _SIZE, _CHECKSUM, _SLICES = range(1, 8)
"""The numbers of the fields of a BundleEntryProto."""

Message = dict[int, list[int | bytes]]
"""The values of each field of a protocol buffer by its number, integers or bytes."""


@contextmanager
def open_bundle(source: Source, index: str) -> Iterator[Arrays]:
    """Open a checkpoint by its index; shards are opened on demand.

    Raises CheckpointError if the index is damaged. To read an array raises it as well.
    """
    label, content = source.label(index), source.read(index, _MAX_INDEX)
    try:
        values = dict(_pairs(content))
        shards = _header(values.pop(b""))
        entries = {key.decode(): _entry(value) for key, value in values.items()}
    except (IndexError, KeyError, ValueError) as error:
        raise CheckpointError(f"{label}: is not a whole index of TensorFlow: {error}") from error
    with ExitStack() as streams:

        @cache
        def opened(file: str) -> BinaryIO:
            return streams.enter_context(source.open(file))

        def read(name: str) -> Tensor:
            shape, entry = entries[name]
            file = f"{index.removesuffix(ENDING)}.data-{entry[_SHARD]:05d}-of-{shards:05d}"
            return _read(shape, entry, f"{label}: {name}", opened(file), source.label(file))

        yield Arrays(label, {name: shape for name, (shape, _) in entries.items()}, read)


def _read(
    shape: tuple[int, ...], entry: dict[int, int], label: str, stream: BinaryIO, shard: str
) -> Tensor:
    """Return an array. Raises CheckpointError if it is not float32, is sliced or damaged."""
    if entry[_TYPE] != _FLOAT:
        raise CheckpointError(
            f"{label} is of type {entry[_TYPE]} of TensorFlow, expected {_FLOAT}, float32"
        )
    if entry[_SLICES]:
        raise CheckpointError(f"{label} is cut into slices, expected one piece")
    size, expected = entry[_SIZE], 4 * math.prod(shape)
    if size != expected:
        raise CheckpointError(f"{label} has {size:,} bytes, expected {expected:,}")
    length, end = stream.seek(0, 2), entry[_OFFSET] + size
    if end > length:
        raise CheckpointError(f"{shard}: has {length:,} bytes, expected {end:,} by {label}")
    stream.seek(entry[_OFFSET])
    content = stream.read(size)
    if _masked_crc32c(content) != entry[_CHECKSUM]:
        raise CheckpointError(f"{label} has another checksum in {shard} than expected")
    # A copy is writable, and in the byte order of this machine.
    array = np.frombuffer(content, dtype="<f4").reshape(shape)
    return torch.from_numpy(array.astype(np.float32))


# The three messages of tensor_bundle.proto.


def _header(content: bytes) -> int:
    """Return the number of shards from a BundleHeaderProto."""
    fields = _message(content)
    if _number(fields, 2) != 0:
        raise ValueError("it is big-endian")
    shards = _number(fields, 1)
    if not 1 <= shards <= 99_999:
        raise ValueError(f"it names {shards} shards")
    return shards


def _entry(content: bytes) -> tuple[tuple[int, ...], dict[int, int]]:
    """Return the shape of a BundleEntryProto, and its numbers by their fields."""
    fields = _message(content)
    numbers = {each: _number(fields, each) for each in (_TYPE, _SHARD, _OFFSET, _SIZE, _CHECKSUM)}
    numbers[_SLICES] = len(fields.get(_SLICES, ()))
    axes = _message(fields[_SHAPE][-1]).get(2, []) if _SHAPE in fields else []
    if len(axes) > _MAX_AXES:
        raise ValueError(f"an array has {len(axes):,} axes")
    shape = tuple(_number(_message(axis), 1) for axis in axes)
    if any(size >= _MAX_DIMENSION for size in shape):
        raise ValueError(f"an array has the shape {shown(shape)}")
    return shape, numbers


def _number(fields: Message, field: int) -> int:
    """Return the last value of a field, 0 without one. Raises ValueError for one of bytes."""
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def _message(content: int | bytes) -> Message:
    """Return the fields of a message. Raises ValueError or IndexError for a damaged one."""
    if not isinstance(content, bytes):
        raise ValueError("a field is no message")
    if len(content) > _MAX_MESSAGE:
        raise ValueError(f"a message has {len(content):,} bytes")
    fields: Message = {}
    position = 0
    while position < len(content):
        tag, position = _varint(content, position)
        kind, values = tag & 7, fields.setdefault(tag >> 3, [])
        if kind == 0:
            value, position = _varint(content, position)
            values.append(value)
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
        values.append(piece if kind == 2 else int.from_bytes(piece, "little"))
    return fields


# The table: sorted pairs of keys and values in blocks, each with a checksum.


def _pairs(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table: at most MAX_ENTRIES, whose keys have up to 4 KiB.

    Raises ValueError or IndexError for a damaged, larger or compressed table.
    """
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or footer[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it does not end as a table does")
    _, position = _handle(footer, 0)  # the block of statistics, which is empty
    index, _ = _handle(footer, position)
    size = count = 0
    for _, value in _block(content, index):
        handle, _ = _handle(value, 0)
        size += handle[1]
        if size > len(content):
            raise ValueError("its blocks overlap")
        for pair in _block(content, handle):
            count += 1
            if count > MAX_ENTRIES:
                raise ValueError(f"it has more than {MAX_ENTRIES:,} pairs")
            yield pair


def _block(content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block. A key is stored as a shared prefix of the last key and a rest."""
    offset, size = handle
    block = content[offset : offset + size]
    trailer = content[offset + size : offset + size + _TRAILER]
    if len(block) != size or len(trailer) != _TRAILER or size < 4:
        raise ValueError("a block reaches beyond the file")
    if _masked_crc32c(block + trailer[:1]) != int.from_bytes(trailer[1:], "little"):
        raise ValueError("a block has another checksum than expected")
    if trailer[0]:
        raise ValueError("a block is compressed")
    restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block has more restarts than bytes")
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        rest, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + rest + length > end:
            raise ValueError("a pair reaches beyond its block")
        if shared + rest > _MAX_KEY:  # the prefix takes no room in the file
            raise ValueError(f"a key has more than {_MAX_KEY:,} bytes")
        key = key[:shared] + block[position : position + rest]
        position += rest
        yield key, block[position : position + length]
        position += length


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Return offset and size of a block, and the position after them."""
    offset, position = _varint(content, position)
    size, position = _varint(content, position)
    return (offset, size), position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, lowest first, and the position after it.

    Raises IndexError at the end of the content, ValueError for more than ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number has more than ten bytes")


def _masked_crc32c(content: bytes) -> int:
    """Return the CRC-32C, rotated and offset: the form in which LevelDB and TensorFlow store it."""
    plain: int = google_crc32c.value(content)
    return (((plain >> 15) | (plain << 17)) + _MASK) & 0xFFFFFFFF
