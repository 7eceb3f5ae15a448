"""Arrow streams: what pyarrow makes of them, whose every check they pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import orjson
import pyarrow
import pyarrow.ipc
import pytest

from elmo_serve.http.media_types import arrow
from elmo_serve.http.media_types.encoder import Embeddings

ARROW = arrow.ENCODER.media_type
SENTENCES = [["The", "naïve", "cat"], [], ["", "東京", "x" * 60], ["\U0001f408", '"\\\t']]


def answer(arrays: Sequence[np.ndarray], shape: tuple[int, ...], tokens: Any = None) -> Embeddings:
    texts = [orjson.dumps(each) for each in tokens or [["a"]] * len(arrays)]
    dtype: Any = arrays[0].dtype.name if arrays else "float32"
    return Embeddings("m", "r", shape[-1], None, 0, arrays, texts, shape, dtype)


def read(data: bytes) -> pyarrow.Table:
    table = pyarrow.ipc.open_stream(data).read_all()
    table.validate(full=True)
    return table


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_a_row_is_a_sentence(client: httpx.Client, dtype: str, pooling: str) -> None:
    body = {"sentences": SENTENCES, "layers": [2, 0], "dtype": dtype, "pooling": pooling}

    response = client.post("/embed", json=body, headers={"Accept": ARROW})

    table = read(response.content)
    assert response.headers["content-type"] == ARROW
    assert table["index"].to_pylist() == [0, 1, 2, 3]
    assert table["tokens"].to_pylist() == SENTENCES
    facts = table.schema.metadata
    shape = json.loads(facts[b"shape"])
    assert shape == ([2, -1, 32] if pooling == "none" else [2, 32])
    assert json.loads(facts[b"layers"]) == [2, 0]
    info = client.get("/info").json()
    assert facts[b"revision"].decode() == info["revision"]
    assert (facts[b"model"], facts[b"dimension"]) == (b"small", b"32")
    for tokens, row in zip(SENTENCES, table["vectors"], strict=True):
        vectors = row.values.to_numpy().reshape(shape)
        assert vectors.dtype == dtype
        assert vectors.shape == ((2, len(tokens), 32) if pooling == "none" else (2, 32))


def test_the_columns_are_those_of_the_parquet_files(client: httpx.Client) -> None:
    body = {"sentences": [], "layers": "average"}

    table = read(client.post("/embed", json=body, headers={"Accept": ARROW}).content)

    assert table.num_rows == 0
    assert table.schema.equals(
        pyarrow.schema(
            [
                ("index", pyarrow.int64()),
                ("tokens", pyarrow.list_(pyarrow.string())),
                ("vectors", pyarrow.large_list(pyarrow.float32())),
            ]
        )
    )
    assert json.loads(table.schema.metadata[b"layers"]) is None


def test_a_large_answer_comes_in_batches_that_can_be_read_one_by_one() -> None:
    arrays = [np.full((3, size, 1024), size, np.float32) for size in (1_000, 400, 2, 1_500, 0, 3)]

    pieces = arrow.encode(answer(arrays, (3, -1, 1024)))

    with pyarrow.ipc.open_stream(b"".join(pieces)) as reader:
        batches = list(reader)
    assert [batch["index"].to_pylist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
    rows = [row.values.to_numpy() for batch in batches for row in batch["vectors"]]
    for row, array in zip(rows, arrays, strict=True):
        np.testing.assert_array_equal(row, array.reshape(-1))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_buffers_lie_where_a_reader_may_use_them_in_place(count: int, dtype: str) -> None:
    arrays = [np.full((size, 3), size, dtype) for size in range(count)]
    tokens = [["é" * size] * size for size in range(count)]

    data = pyarrow.py_buffer(b"".join(arrow.encode(answer(arrays, (-1, 3), tokens))))

    (batch,) = pyarrow.ipc.open_stream(data)
    for column in batch.columns:
        for buffer in filter(None, column.buffers()):
            assert (buffer.address - data.address) % 8 == 0
            assert data.address <= buffer.address < data.address + data.size, "it was copied"
    assert batch["tokens"].to_pylist() == tokens


def test_a_stream_that_is_cut_is_no_answer() -> None:
    data = b"".join(arrow.encode(answer([np.ones((4, 3), np.float32)], (-1, 3))))

    with pytest.raises((pyarrow.ArrowInvalid, OSError)):
        read(data[:-40])
