"""Vectors as a column of Arrow tables and of pandas frames."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from elmo_model.models.opening import open_model
from elmo_serve.files.inputs import FileError
from elmo_serve.selection import SelectionError
from elmo_serve.table_embedder import TableEmbedder
from tests.support.servers import SMALL
from tests.support.vectors import close, layers_of, sentences_of

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

SENTENCES = [*sentences_of(20), []]


def test_each_row_gets_the_vectors_of_its_sentence() -> None:
    table = pyarrow.table({"id": range(21), "tokens": SENTENCES})
    expected = layers_of(open_model(str(SMALL)), SENTENCES)

    found = TableEmbedder(str(SMALL), "all")(table)

    assert found.column_names == ["id", "tokens", "vectors", "shape"]
    for row, wanted in zip(found.to_pylist(), expected, strict=True):
        close(np.array(row["vectors"], np.float32).reshape(row["shape"]), wanted)


def test_an_empty_table_gets_the_columns() -> None:
    column = pyarrow.array([], pyarrow.list_(pyarrow.string()))

    found = TableEmbedder(str(SMALL))(pyarrow.table({"tokens": column}))

    assert (found.num_rows, found.column_names) == (0, ["tokens", "vectors", "shape"])


def test_text_is_split_by_the_tokenizer_of_the_model() -> None:
    table = pyarrow.table({"review": ["Don't stop.", "No."]})

    found = TableEmbedder(str(SMALL), pooling="mean", text="review")(table)

    assert found["tokens"].to_pylist()[1] == ["No", "."]
    assert found["shape"].to_pylist() == [[found["shape"].to_pylist()[0][0]]] * 2


@pytest.mark.parametrize("column", ["tokens", "text"])
def test_a_row_of_null_has_null_vectors(column: str) -> None:
    rows = {"tokens": [["a", "b"], None, ["c"], []], "text": ["a b", None, "c", ""]}[column]
    embedder = TableEmbedder(str(SMALL), text="text" if column == "text" else None)

    found = embedder(pyarrow.table({column: rows}))

    assert found["tokens"].to_pylist() == [["a", "b"], None, ["c"], []]
    assert found["shape"].to_pylist() == [[2, 32], None, [1, 32], [0, 32]]
    lengths = [None if row is None else len(row) for row in found["vectors"].to_pylist()]
    assert lengths == [64, None, 32, 0]


def test_a_null_among_tokens_and_a_second_column_are_refused() -> None:
    with pytest.raises(FileError, match="row 1: a token is null"):
        TableEmbedder(str(SMALL))(pyarrow.table({"tokens": [["a"], ["b", None]]}))
    table = pyarrow.table({"text": ["a"], "tokens": [["b"]]})
    with pytest.raises(FileError, match="'tokens' already"):
        TableEmbedder(str(SMALL), text="text")(table)


def test_a_frame_keeps_its_index() -> None:
    frame = pd.DataFrame({"tokens": [["a", "b"], ["c"]]}, index=["x", "y"])

    found = TableEmbedder(str(SMALL)).pandas(frame)

    assert list(found.index) == ["x", "y"]
    assert [tuple(shape) for shape in found["shape"]][1][0] == 1
    assert list(frame.columns) == ["tokens"]


def test_a_layer_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(SelectionError, match="there is no layer 7"):
        TableEmbedder(str(SMALL), 7)


def are_means(found: Iterable[tuple[int, Any]]) -> None:
    """Compare pairs of the number of a sentence and its mean vector with the model's."""
    expected = layers_of(open_model(str(SMALL)), SENTENCES)
    rows = sorted(found, key=lambda row: row[0])
    assert [number for number, _ in rows] == list(range(20))
    for number, vector in rows:
        close(np.asarray(vector, np.float32), expected[number][-1].mean(0))


def embed_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return TableEmbedder(str(SMALL), pooling="mean").pandas(frame)


def test_dask_maps_it_over_partitions() -> None:
    """As docs/files.md shows it."""
    dask = pytest.importorskip(
        "dask", reason="dask is not installed: `make test-scale` installs it"
    )
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame({"tokens": SENTENCES[:20]})
    meta = {"tokens": object, "vectors": object, "shape": object}

    with dask.config.set({"dataframe.convert-string": False}):
        parts = dataframe.from_pandas(frame, npartitions=3, sort=False)
        found = parts.map_partitions(embed_frame, meta=meta).compute(scheduler="threads")

    are_means(enumerate(found["vectors"]))


@pytest.mark.scale
@pytest.mark.filterwarnings("ignore")
def test_ray_data_maps_it_over_batches() -> None:
    """As docs/files.md shows it."""
    ray = pytest.importorskip("ray", reason="ray is not installed: `make test-scale` installs it")
    # "local": never a cluster that happens to run on this machine
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        rows = ray.data.from_items(
            [{"number": number, "tokens": SENTENCES[number]} for number in range(20)]
        )
        found = rows.map_batches(
            TableEmbedder,
            fn_constructor_kwargs={"model": str(SMALL), "layers": "top", "pooling": "mean"},
            batch_format="pyarrow",
            batch_size=6,
            concurrency=2,
        ).take_all()
    finally:
        ray.shutdown()

    are_means((row["number"], row["vectors"]) for row in found)


def embed_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    embedder = TableEmbedder(str(SMALL), pooling="mean")
    for frame in frames:
        yield embedder.pandas(frame)


# PySpark 4.3 warns of pandas 3.
@pytest.mark.filterwarnings("ignore")
def test_spark_maps_it_over_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/files.md shows it."""
    sql = pytest.importorskip(
        "pyspark.sql", reason="pyspark is not installed: `make test-scale` installs it"
    )
    if shutil.which("java") is None:
        pytest.skip("there is no java, which Spark needs")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = spark.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    try:
        frame = session.createDataFrame(
            [(number, SENTENCES[number]) for number in range(20)],
            "number int, tokens array<string>",
        )
        found = frame.repartition(3).mapInPandas(
            embed_frames,
            "number int, tokens array<string>, vectors array<float>, shape array<bigint>",
        )
        rows = found.collect()
    finally:
        session.stop()

    are_means((row.number, row.vectors) for row in rows)
