"""Parquet: one row per sentence with `index`, `tokens` and `vectors`; the metadata has the shape.

It is written by pyarrow, an optional dependency: `pip install 'elmo-serve[parquet]'`.
"""

# ruff: noqa: PLC0415 - pyarrow is optional

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from elmo_serve.files import arrow_rows
from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

_TOKENS = -1  # stands for the number of tokens in a shape: no axis has this size


def _write(target: Target, items: Items, facts: Facts) -> None:
    import pyarrow.parquet

    schema = _schema(facts)
    tokens: list[list[str]] = []
    arrays: list[np.ndarray] = []
    first, size = facts.first, 0
    with pyarrow.parquet.ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=False
    ) as writer:
        for sentence, vectors in items:
            tokens.append(sentence.tokens)
            arrays.append(vectors)
            size += vectors.nbytes
            if size >= arrow_rows.BATCH_BYTES:
                writer.write_batch(arrow_rows.record_batch(schema, first, tokens, arrays))
                first, size, tokens, arrays = first + len(arrays), 0, [], []
        if arrays:
            writer.write_batch(arrow_rows.record_batch(schema, first, tokens, arrays))


def _schema(facts: Facts) -> pyarrow.Schema:
    """Return the columns; `shape` in the metadata has -1 in the place of the tokens."""
    output, model = facts.output, facts.model
    shape = [-1 if size == _TOKENS else size for size in output.shape(_TOKENS, model.dimension)]
    layers = None if output.layers is None else list(output.layers)
    described = {
        "shape": json.dumps(shape),
        "layers": json.dumps(layers),
        "model": model.name,
        "revision": model.revision,
    }
    return arrow_rows.schema_of(described)


FORMAT = OutputFormat(
    _write,
    ".parquet",
    (".parquet",),
    require=partial(arrow_rows.require, "Parquet"),
    is_stream=True,
)
