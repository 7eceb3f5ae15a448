"""application/vnd.apache.arrow.stream: record batches with a row a sentence.

The columns are `index` (int64), `tokens` (list of strings) and `vectors` (large list of floats, a
sentence's array in one row); how a row becomes an array again is in the schema's metadata. What is
written here are the headers; the vectors are sent from where they lie.
"""

# ruff: noqa: PLC0415 - only a client needs pyarrow

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_serve.http.media_types import flatbuffer
from elmo_serve.http.media_types.encoder import Answer, Chunk, Encoding, raw
from elmo_serve.http.media_types.flatbuffer import Number, Structs, Table

_BATCH_BYTES = 16 * 1024**2  # of vectors: what a client reads at a time, if it wants
# Numbers of the format (Schema.fbs, Message.fbs)
_VERSION = Number("h", 4)  # V5
_SCHEMA, _RECORD_BATCH = Number("B", 1), Number("B", 3)
_INT, _FLOAT, _UTF8, _LIST, _LARGE_LIST = (Number("B", code) for code in (2, 3, 5, 12, 21))
_PRECISIONS = {"float16": Number("h", 0), "float32": Number("h", 1)}
_YES = Number("B", 1)
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)


def encode(answer: Answer) -> list[Chunk]:
    """Return the stream in pieces; the vectors among them are not copied."""
    pieces: list[Chunk] = [_message(_SCHEMA, _schema(answer), 0)]
    for rows in _batches(answer.arrays):
        pieces += _record_batch(answer, rows)
    return [*pieces, _END]


def decode(data: bytes) -> list[NDArray[Any]]:
    """Return one array a sentence. Needs pyarrow, which the service itself does without."""
    import pyarrow.ipc

    table = pyarrow.ipc.open_stream(data).read_all()
    shape = orjson.loads(table.schema.metadata[b"shape"])
    return [row.values.to_numpy().reshape(shape) for row in table["vectors"]]


def _schema(answer: Answer) -> Table:
    described = {
        "shape": orjson.dumps(answer.shape).decode(),
        "layers": orjson.dumps(answer.layers).decode(),
        "dimension": str(answer.dimension),
        "model": answer.model,
        "revision": answer.revision,
    }
    int64 = Table((Number("i", 64), _YES))
    columns = [
        _field("index", _INT, int64),
        _field("tokens", _LIST, Table(), _field("item", _UTF8, Table())),
        _field(
            "vectors",
            _LARGE_LIST,
            Table(),
            _field("item", _FLOAT, Table((_PRECISIONS[answer.dtype],))),
        ),
    ]
    metadata = [Table((key, value)) for key, value in described.items()]
    return Table((None, columns, metadata))


def _field(name: str, code: Number, kind: Table, *children: Table) -> Table:
    return Table((name, _YES, code, kind, None, children))


def _batches(arrays: Sequence[NDArray[Any]]) -> Iterator[range]:
    """Cut the sentences into runs; there is one at least."""
    start = size = 0
    for index in range(len(arrays)):
        size += arrays[index].nbytes
        if size >= _BATCH_BYTES:
            yield range(start, index + 1)
            start, size = index + 1, 0
    if start < len(arrays) or not arrays:
        yield range(start, len(arrays))


def _record_batch(answer: Answer, rows: range) -> list[Chunk]:
    """Return a batch: a header that lists the buffers, and the buffers, each from a multiple of 8.

    No value is missing, so that every bitmap of missing ones is empty.
    """
    sentences = [orjson.loads(answer.sentences[row]) for row in rows]
    tokens = [token.encode() for sentence in sentences for token in sentence]
    arrays = [answer.arrays[row] for row in rows]
    text = b"".join(tokens)
    values = sum(array.size for array in arrays)
    buffers = [
        b"",
        np.arange(rows.start, rows.stop, dtype="<i8").tobytes(),
        b"",
        _offsets(map(len, sentences), "<i4"),
        b"",
        _offsets(map(len, tokens), "<i4"),
        text,
        b"",
        _offsets((array.size for array in arrays), "<i8"),
        b"",
    ]
    vectors = sum(array.nbytes for array in arrays)
    sizes = [*map(len, buffers), vectors]
    starts = [0, *accumulate(size + -size % 8 for size in sizes)]
    nodes = [(count, 0) for count in (len(rows), len(rows), len(tokens), len(rows), values)]
    header = Table(
        (Number("q", len(rows)), Structs(nodes), Structs(list(zip(starts, sizes, strict=False))))
    )
    head = _message(_RECORD_BATCH, header, starts[-1])
    padded = [part + bytes(-len(part) % 8) for part in buffers]
    views = [raw(array) for array in arrays if array.size]
    return [b"".join((head, *padded)), *views, bytes(-vectors % 8)]


def _offsets(lengths: Any, dtype: str) -> bytes:
    """Return where each of some neighbours begins, and where the last one ends."""
    return np.array([0, *accumulate(lengths)], dtype).tobytes()


def _message(kind: Number, header: Table, body: int) -> bytes:
    """Return an encapsulated message without its body of so many bytes."""
    data = flatbuffer.write(Table((_VERSION, kind, header, Number("q", body))))
    data += bytes(-len(data) % 8)
    return _CONTINUES + struct.pack("<i", len(data)) + data


ENCODING = Encoding("application/vnd.apache.arrow.stream", encode, decode)
