"""npz: an uncompressed archive, for every reader, whose checksums do not hold up the event loop."""

import io
import json
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from elmo_serve.http.media_types import npz
from tests.support.http_messages import arrays, embeddings

VECTORS = arrays((3, 2, 1024), (3, 0, 1024), (3, 40, 1024), (3, 2, 1024))
WITH_TEXT = replace(embeddings(VECTORS), tokenizer="ptb", offsets=[b"[[0,1],[1,1]]"] * 4)


def in_turn(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive by their local headers alone, as cnpy reads them."""
    found, start = {}, 0
    while content[start : start + 4] == b"PK\3\4":
        fields = struct.unpack_from("<4s5H3I2H", content, start)
        _, _, flags, method, _, _, checksum, packed, size, name_size, extra = fields
        assert (flags & 0x8, method, extra) == (0, 0, 0)
        name = content[start + 30 : start + 30 + name_size].decode()
        start += 30 + name_size
        found[name] = content[start : start + packed]
        assert len(found[name]) == packed == size
        assert zlib.crc32(found[name]) == checksum
        start += packed
    assert content[start : start + 4] == b"PK\1\2"
    return found


def test_readers_that_go_from_entry_to_entry_read_all_arrays() -> None:
    content = b"".join(npz.encode(WITH_TEXT))

    files = in_turn(content)

    assert list(files) == [f"{n}.npy" for n in (0, 1, 2, 3, "tokens", "offsets")]
    read: dict[str, Any] = {name: np.load(io.BytesIO(data)) for name, data in files.items()}
    for index, array in enumerate(VECTORS):
        np.testing.assert_array_equal(read[f"{index}.npy"], array, strict=True)
    assert json.loads(read["tokens.npy"].item()) == [["a", ""]] * 4
    with np.load(io.BytesIO(content)) as by_name:
        assert all((by_name[name.removesuffix(".npy")] == read[name]).all() for name in files)


def test_no_checksum_of_npz_is_just_long_enough_to_starve_the_event_loop() -> None:
    vectors = arrays((2, 1024), (30, 1024), (3, 40, 1024))

    pieces = npz.encode(embeddings(vectors))

    sizes = [len(piece) for piece in pieces if isinstance(piece, memoryview)]
    assert sum(sizes) == sum(array.nbytes for array in vectors)
    assert all(size <= 5 * 1024 or size > 1 << 17 for size in sizes)
