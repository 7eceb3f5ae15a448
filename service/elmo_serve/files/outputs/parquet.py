"""Parquet: one row per sentence with `index`, `tokens` and `vectors`; the metadata has the shape.

It is written by pyarrow, an optional dependency: `pip install 'elmo-serve[parquet]'`.
"""

# ruff: noqa: PLC0415 - pyarrow is optional

from __future__ import annotations

import importlib.util
import json
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from elmo_serve.files.outputs.output_format import Facts, Items, OutputFormat, Target
from elmo_serve.files.sentence import FileError

if TYPE_CHECKING:
    import pyarrow

# Bytes of the vectors in a row group. Larger groups need more memory, here and in readers; smaller
# ones make the file's directory longer.
_GROUP_BYTES = 16 * 1024**2

_TOKENS = -1  # stands for the number of tokens in a shape: no axis has this size


def _require() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise FileError("Parquet needs pyarrow, which is not installed: elmo-serve[parquet] has it")


def _write(target: Target, items: Items, facts: Facts) -> None:
    import pyarrow.parquet

    schema = _schema(facts)
    rows: list[tuple[int, list[str], np.ndarray]] = []
    size = 0
    with pyarrow.parquet.ParquetWriter(
        target, schema, compression="none", use_dictionary=False, write_statistics=False
    ) as writer:
        for number, (sentence, vectors) in enumerate(items, facts.first):
            rows.append((number, sentence.tokens, vectors.reshape(-1)))
            size += vectors.nbytes
            if size >= _GROUP_BYTES:
                writer.write_batch(_batch(rows, schema))
                rows, size = [], 0
        if rows:
            writer.write_batch(_batch(rows, schema))


def _schema(facts: Facts) -> pyarrow.Schema:
    """Return the columns; `shape` in the metadata has -1 in the place of the tokens."""
    import pyarrow

    output, model = facts.output, facts.model
    shape = [-1 if size == _TOKENS else size for size in output.shape(_TOKENS, model.dimension)]
    layers = None if output.layers is None else list(output.layers)
    described = {
        "shape": json.dumps(shape),
        "layers": json.dumps(layers),
        "model": model.name,
        "revision": model.revision,
    }
    return pyarrow.schema(
        [
            ("index", pyarrow.int64()),
            ("tokens", pyarrow.list_(pyarrow.string())),
            ("vectors", pyarrow.large_list(pyarrow.float32())),
        ],
        metadata=described,
    )


def _batch(
    rows: list[tuple[int, list[str], np.ndarray]], schema: pyarrow.Schema
) -> pyarrow.RecordBatch:
    import pyarrow

    numbers, tokens, vectors = zip(*rows, strict=True)
    offsets = [0, *accumulate(len(each) for each in vectors)]
    flat = pyarrow.array(np.concatenate(vectors))
    columns = [
        pyarrow.array(numbers, pyarrow.int64()),
        pyarrow.array(tokens, schema.field("tokens").type),
        pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets, pyarrow.int64()), flat),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


FORMAT = OutputFormat(_write, require=_require, is_stream=True)
