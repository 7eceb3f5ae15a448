"""Write vectors as JSON in other processes, because orjson holds the GIL."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from numpy.typing import NDArray

from elmo_serve.http.helpers.pool import HelperPool, PoolOptions, runs
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import Chunk
from elmo_serve.processes.arena import Bytes, Vectors, view

_NUMBERS_HERE: Final = 1 << 12
"""Numbers of an answer that the server writes itself, in 0.06 ms of the event loop. To give them to
a process takes as long."""

_PART_BYTES = 1 << 19
"""Bytes of float32 vectors in one call, some 3 ms of writing: one answer uses all processes."""

_PART_SENTENCES = 256
"""Sentences in one call: to name a sentence in a message costs time as well."""

_ITEM_BYTES = 4  # a float16 takes as long to write as a float32
_NUMBER_BYTES = 25  # at most: "-1.1754943508222875e-38," and brackets

_OBJECT_BYTES = 64
"""Bytes of an embedding object around its numbers, its index included, or of an empty sentence."""


WRITING: Final = PoolOptions(
    name="write",
    title="writing process",
)


async def write(
    pool: HelperPool, vectors: Sequence[Vectors], *, as_objects: bool = False
) -> list[Chunk]:
    """Return the JSON of some sentences, with commas between them, in pieces.

    With `as_objects` each is an embedding object of OpenAI.

    Raises:
        HelperError, Unavailable: see `HelperPool.run`; also where memory is short.
    """
    numbers = [math.prod(one.shape) for one in vectors]
    if sum(numbers) <= _NUMBERS_HERE and len(numbers) <= _PART_SENTENCES:
        return [b"".join(_texts((one.numpy() for one in vectors), 0 if as_objects else None))]
    parts: list[asyncio.Future[memoryview]] = []
    try:
        for part in runs((_ITEM_BYTES * n for n in numbers), _PART_BYTES, _PART_SENTENCES):
            first = part.start if as_objects else None
            parts.append(asyncio.ensure_future(_write_part(pool, vectors[part], first)))
            await asyncio.sleep(0)
        texts = await asyncio.gather(*parts)
    except BaseException:
        for unfinished in parts:
            unfinished.cancel()
        raise
    pieces: list[Chunk] = []
    for text in texts:
        if pieces:
            pieces.append(b",")
        pieces.append(text)
    return pieces


async def _write_part(
    pool: HelperPool, vectors: Sequence[Vectors], first: int | None
) -> memoryview:
    numbers = sum(math.prod(v.shape) for v in vectors)
    brackets = sum(2 * math.prod(v.shape[:-1]) + _OBJECT_BYTES for v in vectors)
    blocks = {v.block.start: v.block for v in vectors}
    number = {start: number for number, start in enumerate(blocks)}
    sources = [(number[v.block.start], v.offset, v.shape, v.dtype) for v in vectors]
    output = numbers * _NUMBER_BYTES + 2 * brackets
    text: memoryview = await pool.run(_write, first, sources, *blocks.values(), output=output)
    return text


def _write(
    target: Bytes,
    first: int | None,
    sources: Sequence[tuple[int, int, tuple[int, ...], str]],
    *memory: Bytes,
) -> int:
    """Write vectors to `target` as JSON, with commas between sentences; return its size in bytes.

    A source is the number of its memory, and the offset, shape and type of the vectors in it. With
    `first` each is an embedding object of OpenAI, numbered from `first` on.
    """
    arrays = (view(memory[number], start, shape, dtype) for number, start, shape, dtype in sources)
    written, end = target.data, 0
    for text in _texts(arrays, first):
        start, end = end, end + len(text)
        written[start:end] = text
    return end


def _texts(arrays: Iterable[NDArray[Any]], first: int | None) -> Iterator[bytes]:
    """Yield the texts of some sentences; see `_write` for `first`."""
    texts = json_text.texts(arrays)
    return texts if first is None else json_text.embedding_objects(texts, first)
