"""application/vnd.apache.arrow.stream: record batches with a row a sentence.

The columns are those of `arrow_rows`; a request with text has `offsets`. The schema's metadata has
the shape of the arrays. pyarrow writes the stream: `pip install 'elmo-serve[arrow]'`.
"""

# ruff: noqa: PLC0415 - pyarrow is optional

from __future__ import annotations

from typing import Any, Final

import orjson
from numpy.typing import NDArray

from elmo_serve.files import arrow_rows
from elmo_serve.http.helpers.process import runs
from elmo_serve.http.media_types.encoder import Chunk, ChunkList, Embeddings, Encoder
from elmo_serve.output import MEDIA_TYPES

_MEMORY_FACTOR: Final = 2
"""A record batch has the vectors of its sentences in one buffer, which is a copy."""


def encode(embeddings: Embeddings) -> list[Chunk]:
    """Return the stream in chunks. The vectors are copied once, into record batches."""
    import pyarrow.ipc

    has_offsets = embeddings.tokenizer is not None
    schema = arrow_rows.schema_of(embeddings.dtype, _metadata(embeddings), has_offsets=has_offsets)
    file = ChunkList()
    with pyarrow.ipc.new_stream(file, schema) as writer:
        sizes = (array.nbytes for array in embeddings.arrays)
        for rows in runs(sizes, arrow_rows.BATCH_BYTES):
            batch = arrow_rows.record_batch(
                schema,
                rows.start,
                [orjson.loads(text) for text in embeddings.sentences[rows]],
                embeddings.arrays[rows],
                [orjson.loads(each) for each in embeddings.offsets[rows]] if has_offsets else None,
            )
            writer.write_batch(batch)
    file.flush()
    return file.chunks


def decode(data: bytes) -> list[NDArray[Any]]:
    """Return one array a sentence."""
    import pyarrow.ipc

    table = pyarrow.ipc.open_stream(data).read_all()
    shape = orjson.loads(table.schema.metadata[b"shape"])
    return [row.values.to_numpy().reshape(shape) for row in table["vectors"]]


def _metadata(embeddings: Embeddings) -> dict[str, str]:
    found = {
        "shape": orjson.dumps(embeddings.shape).decode(),
        "layers": orjson.dumps(embeddings.layers).decode(),
        "dimension": str(embeddings.dimension),
        "model": embeddings.model,
        "revision": embeddings.revision,
    }
    if embeddings.tokenizer is not None:
        found["tokenizer"] = embeddings.tokenizer
    return found


ENCODER = Encoder(MEDIA_TYPES["arrow"], encode, decode, _MEMORY_FACTOR)
