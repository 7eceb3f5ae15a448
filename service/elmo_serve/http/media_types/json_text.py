"""application/json: nested lists; the digits read back as the same float32.

The server writes large responses in helper processes, because orjson holds the GIL.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson
from numpy.typing import NDArray

from elmo_serve.http.media_types.encoder import MEDIA_TYPES, Chunk, Embeddings, Encoder, json_array
from elmo_serve.processes.arena import Bytes, Vectors, view
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.processes.parts import in_order, runs

MEMORY_FACTOR: Final = 4
"""Memory of a JSON response against its vectors: 4 bytes of a float32 and some 11 to 12 of text."""

_NUMBERS_HERE: Final = 1 << 12
"""Numbers of an answer that the server writes itself, in 0.06 ms of the event loop. To give them to
a process takes as long."""

_PART_BYTES: Final = 1 << 19
"""Bytes of float32 vectors in one call, some 3 ms of writing: one answer uses several processes."""

_PART_SENTENCES: Final = 256
"""Sentences in one call: to name a sentence in a message costs time as well."""

_ITEM_BYTES: Final = 4  # a float16 takes as long to write as a float32
_NUMBER_BYTES: Final = 25  # at most: "-1.1754943508222875e-38," and brackets

_OBJECT_BYTES: Final = 64
"""Bytes of an embedding object around its numbers, its index included, or of an empty sentence."""


def encode(embeddings: Embeddings) -> list[Chunk]:
    """Return the whole body."""
    return [head(embeddings), *texts(embeddings.arrays), tail(embeddings)]


def head(embeddings: Embeddings) -> bytes:
    """Return the body up to the first sentence."""
    members = {
        "model": embeddings.model,
        "dimension": embeddings.dimension,
        "layers": embeddings.layers,
    }
    return orjson.dumps(members)[:-1] + b',"embeddings":['


def texts(arrays: Iterable[NDArray[Any]]) -> Iterator[bytes]:
    """Yield the texts of some sentences, with commas between them.

    Copy each text out and drop it before the next is asked for: reusing the same memory is 1.4
    times as fast. orjson writes the shortest digits that read back as the same number of the
    array's own width.
    """
    for index, array in enumerate(arrays):
        if index:
            yield b","
        plain = array if array.size else array.tolist()
        yield orjson.dumps(plain, option=orjson.OPT_SERIALIZE_NUMPY)


def embedding_objects(texts: Iterable[bytes], first: int) -> Iterator[bytes]:
    """Yield the texts of `texts`, each vector in an embedding object of OpenAI."""
    index = first
    for text in texts:
        if text == b",":
            yield text
        else:
            yield b'{"object":"embedding","index":%d,"embedding":%b}' % (index, text)
            index += 1


def tail(embeddings: Embeddings) -> bytes:
    """Return the body after the last sentence."""
    usage = {"sentences": len(embeddings.sentences), "tokens": embeddings.tokens}
    return b'],"usage":%b%b}' % (orjson.dumps(usage), b"".join(text_members(embeddings)))


def text_members(embeddings: Embeddings) -> Iterator[bytes]:
    """Yield a comma and a member for each fact that only some responses have."""
    if embeddings.tokenizer is not None:
        yield b',"tokenizer":' + orjson.dumps(embeddings.tokenizer)
        yield b',"tokens":' + json_array(embeddings.sentences)
        yield b',"offsets":' + json_array(embeddings.offsets)


async def write(
    pool: HelperPool, client: str, vectors: Sequence[Vectors], *, as_objects: bool = False
) -> list[Chunk]:
    """Return the JSON of some sentences, with commas between them, in pieces.

    With `as_objects` each is an embedding object of OpenAI, and has its number. Other sentences
    whose vectors are the same object are written once.

    Raises:
        HelperError, Unavailable: see `HelperPool.run`; also where memory is short.
    """
    distinct = vectors if as_objects else list({id(one): one for one in vectors}.values())
    has_repeats = len(distinct) < len(vectors)
    written: list[Chunk] = []  # each distinct sentence, or runs of them with commas

    def take(part: tuple[memoryview, list[int]]) -> None:
        memory, ends = part
        bounds = zip([0, *ends], ends, strict=False)
        pieces = [memory[start:end] for start, end in bounds]
        written.extend(pieces[::2] if has_repeats else [memory[: ends[-1]]])

    numbers = [math.prod(one.shape) for one in distinct]
    if sum(numbers) <= _NUMBERS_HERE and len(numbers) <= _PART_SENTENCES:
        pieces = list(_texts((one.numpy() for one in distinct), 0 if as_objects else None))
        written = list(pieces[::2]) if has_repeats else [b"".join(pieces)]
    else:
        parts = runs((_ITEM_BYTES * n for n in numbers), _PART_BYTES, _PART_SENTENCES)
        firsts = ((part, part.start if as_objects else None) for part in parts)
        await in_order(
            (_write_part(pool, client, distinct[part], first) for part, first in firsts), take
        )
    if has_repeats:
        by_vectors = dict(zip(map(id, distinct), written, strict=True))
        written = [by_vectors[id(one)] for one in vectors]
    return [piece for text in written for piece in (b",", text)][1:]


def _write_part(
    pool: HelperPool, client: str, vectors: Sequence[Vectors], first: int | None
) -> asyncio.Future[tuple[memoryview, list[int]]]:
    numbers = sum(math.prod(v.shape) for v in vectors)
    brackets = sum(2 * math.prod(v.shape[:-1]) + _OBJECT_BYTES for v in vectors)
    blocks = {v.block.start: v.block for v in vectors}
    number = {start: number for number, start in enumerate(blocks)}
    sources = [(number[v.block.start], v.offset, v.shape, v.dtype) for v in vectors]
    output = numbers * _NUMBER_BYTES + 2 * brackets
    return pool.run(_write, first, sources, *blocks.values(), client=client, output=output)


def _write(
    target: Bytes,
    first: int | None,
    sources: Sequence[tuple[int, int, tuple[int, ...], str]],
    *memory: Bytes,
) -> list[int]:
    """Write vectors to `target` as JSON; return where each sentence, and each comma, ends there.

    A source is the number of its memory, and the offset, shape and type of the vectors in it. With
    `first` each is an embedding object of OpenAI, numbered from `first` on.
    """
    arrays = (view(memory[number], start, shape, dtype) for number, start, shape, dtype in sources)
    written, end, ends = target.data, 0, []
    for text in _texts(arrays, first):
        start, end = end, end + len(text)
        written[start:end] = text
        ends.append(end)
    return ends


def _texts(arrays: Iterable[NDArray[Any]], first: int | None) -> Iterator[bytes]:
    """Yield the texts of some sentences; see `_write` for `first`."""
    found = texts(arrays)
    return found if first is None else embedding_objects(found, first)


ENCODER = Encoder(MEDIA_TYPES["json"], encode, MEMORY_FACTOR)
