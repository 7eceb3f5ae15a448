"""Tables of LevelDB: sorted pairs of keys and values in blocks, each with a checksum.

The format is described in LevelDB's `table_format.md`. TensorFlow writes its checkpoint index as
such a table, without compression.
"""

from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import MAX_ENTRIES

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER = 48  # bytes
_TRAILER = 5  # bytes after a block: its compression and its checksum
_MAX_KEY = 4096  # bytes
_COMPRESSIONS = {1: "snappy", 2: "zlib"}
_MASK = 0xA282EAD8


def is_table(path: Path) -> bool:
    """Return whether a file ends with the magic number of a table."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - len(_MAGIC)))
            return stream.read() == _MAGIC
    except OSError:
        return False


def pairs(label: str, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table: at most MAX_ENTRIES, whose keys have up to 4 KiB.

    Raises ValueError or IndexError for a damaged or larger table, CheckpointError, which begins
    with `label`, for a compressed one.
    """
    footer = content[-_FOOTER:]
    if len(footer) < _FOOTER or footer[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it does not end as a table does")
    _, position = _handle(footer, 0)  # the block of statistics, which is empty
    index, _ = _handle(footer, position)
    size = count = 0
    for _, value in _block(label, content, index):
        handle, _ = _handle(value, 0)
        size += handle[1]
        if size > len(content):
            raise ValueError("its blocks overlap")
        for pair in _block(label, content, handle):
            count += 1
            if count > MAX_ENTRIES:
                raise ValueError(f"it has more than {MAX_ENTRIES:,} pairs")
            yield pair


def _block(label: str, content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pairs of a block. A key is stored as a shared prefix of the last key and a rest."""
    offset, size = handle
    block = content[offset : offset + size]
    trailer = content[offset + size : offset + size + _TRAILER]
    if len(block) != size or len(trailer) != _TRAILER or size < 4:
        raise ValueError("a block reaches beyond the file")
    if masked_crc32c(block + trailer[:1]) != int.from_bytes(trailer[1:], "little"):
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
        shared, position = varint(block, position)
        rest, position = varint(block, position)
        length, position = varint(block, position)
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
    offset, position = varint(content, position)
    size, position = varint(content, position)
    return (offset, size), position


def varint(content: bytes, position: int) -> tuple[int, int]:
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


def masked_crc32c(content: bytes) -> int:
    """Return the CRC-32C, rotated and offset: the form in which LevelDB and TensorFlow store it."""
    plain: int = google_crc32c.value(content)
    return (((plain >> 15) | (plain << 17)) + _MASK) & 0xFFFFFFFF
