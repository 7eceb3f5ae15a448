"""Sentences and their vectors as rows of Parquet files.

pyarrow is an optional dependency.
"""

# ruff: noqa: PLC0415 - pyarrow is optional, numpy is imported when rows are made

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from elmo_serve.files.inputs import FileError

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

BATCH_BYTES: Final = 16 * 1024**2
"""Bytes of the vectors in a record batch or row group, the unit in which a reader reads. Larger
ones need more memory, here and in readers; smaller ones make the file's directory longer."""


def require(what: str) -> None:
    """Raise FileError if there is no pyarrow for `what`: Arrow or Parquet."""
    if importlib.util.find_spec("pyarrow") is None:
        raise FileError(
            f"{what} needs pyarrow, which is not installed: pip install "
            f"'elmo-serve[{what.lower()}]'"
        )


def schema_of(metadata: Mapping[str, str]) -> pyarrow.Schema:
    """Return the columns: `index`, `tokens`, and `vectors` (flat, float32)."""
    import pyarrow

    fields = [
        ("index", pyarrow.int64()),
        ("tokens", pyarrow.list_(pyarrow.string())),
        ("vectors", pyarrow.large_list(pyarrow.float32())),
    ]
    return pyarrow.schema(fields, metadata=dict(metadata))


def vector_column(arrays: Sequence[NDArray[Any]]) -> pyarrow.LargeListArray:
    """Return a column of the numbers of each array, in C order; of no array float32."""
    import numpy as np
    import pyarrow

    ends = [0, *accumulate(array.size for array in arrays)]
    flat = np.concatenate([array.reshape(-1) for array in arrays] or [np.empty(0, np.float32)])
    offsets = pyarrow.array(ends, pyarrow.int64())
    return pyarrow.LargeListArray.from_arrays(offsets, pyarrow.array(flat))


def record_batch(
    schema: pyarrow.Schema,
    first: int,
    tokens: Sequence[Sequence[str]],
    arrays: Sequence[NDArray[Any]],
) -> pyarrow.RecordBatch:
    """Return a row for each sentence; `first` is the index of the first."""
    import pyarrow

    columns = [
        pyarrow.array(range(first, first + len(arrays)), pyarrow.int64()),
        pyarrow.array(tokens, schema.field("tokens").type),
        vector_column(arrays),
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
