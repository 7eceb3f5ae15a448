"""The writer of Parquet, by pyarrow: one row per sentence; the metadata has the shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow
from numpy.typing import NDArray
from pyarrow.parquet import ParquetWriter

from elmo_serve.files.outputs.output_format import Facts, Items, Target

_BATCH_BYTES: Final = 16 * 1024**2
"""Bytes of the vectors in a row group, the unit in which a reader reads. Larger ones need more
memory, here and in readers; smaller ones make the file's directory longer."""

_TOKENS = -1  # stands for the number of tokens in a shape: no axis has this size


def write(target: Target, items: Items, facts: Facts) -> None:
    """Write sentences and their vectors; raises OSError if the disk is full."""
    schema = _schema(facts)
    tokens: list[list[str]] = []
    arrays: list[NDArray[Any]] = []
    first, size = facts.first, 0
    with ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=False
    ) as writer:
        for sentence, vectors in items:
            tokens.append(sentence.tokens)
            arrays.append(vectors)
            size += vectors.nbytes
            if size >= _BATCH_BYTES:
                writer.write_batch(_record_batch(schema, first, tokens, arrays))
                first, size, tokens, arrays = first + len(arrays), 0, [], []
        if arrays:
            writer.write_batch(_record_batch(schema, first, tokens, arrays))


def _schema(facts: Facts) -> pyarrow.Schema:
    """Return the columns `index`, `tokens` and `vectors` (flat, float32).

    `shape` in the metadata has -1 in the place of the tokens.
    """
    output, model = facts.output, facts.model
    shape = [-1 if size == _TOKENS else size for size in output.shape(_TOKENS, model.dimension)]
    layers = None if output.layers is None else list(output.layers)
    described = {
        "shape": json.dumps(shape),
        "layers": json.dumps(layers),
        "model": model.name,
        "revision": model.revision,
    }
    fields = [
        ("index", pyarrow.int64()),
        ("tokens", pyarrow.list_(pyarrow.string())),
        ("vectors", pyarrow.large_list(pyarrow.float32())),
    ]
    return pyarrow.schema(fields, metadata=described)


def vector_column(arrays: Sequence[NDArray[Any] | None]) -> pyarrow.LargeListArray:
    """Return a column of the numbers of each array, in C order; null for None; of none float32."""
    ends = [0, *accumulate(0 if array is None else array.size for array in arrays)]
    given = [array.reshape(-1) for array in arrays if array is not None]
    flat = np.concatenate(given or [np.empty(0, np.float32)])
    # A null offset makes its list null.
    nulls = np.array([*(array is None for array in arrays), False])
    offsets = pyarrow.array(ends, pyarrow.int64(), mask=nulls if nulls.any() else None)
    return pyarrow.LargeListArray.from_arrays(offsets, pyarrow.array(flat))


def _record_batch(
    schema: pyarrow.Schema,
    first: int,
    tokens: Sequence[Sequence[str]],
    arrays: Sequence[NDArray[Any]],
) -> pyarrow.RecordBatch:
    """Return a row for each sentence; `first` is the index of the first."""
    columns = [
        pyarrow.array(range(first, first + len(arrays)), pyarrow.int64()),
        pyarrow.array(tokens, schema.field("tokens").type),
        vector_column(arrays),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
