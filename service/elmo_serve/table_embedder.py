"""Vectors as a column of Arrow tables: the unit of work of Ray Data, Dask and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow

from elmo_serve.files.inputs import FileError
from elmo_serve.files.outputs.parquet_writer import vector_column
from elmo_serve.files.vectors import LengthSorted
from elmo_serve.models.in_process import open_network
from elmo_serve.selection import Pooling, select

if TYPE_CHECKING:
    import pandas as pd


class TableEmbedder:
    """Adds the columns `vectors` and `shape` to tables; holds a model.

    The column `vectors` has all numbers of a sentence, float32, in C order; `shape` is (n, 2P) or
    (layers, n, 2P), and (2P,) or (layers, 2P) when pooled.
    """

    def __init__(
        self,
        model: str = "english",
        layers: str | int = "top",
        *,
        tokens: str = "tokens",
        text: str | None = None,
        pooling: Pooling = "none",
        normalize: bool = False,
        device: str = "auto",
        precision: str = "float32",
    ) -> None:
        """Load a model.

        Args:
            model: a built-in name, the name of a published model, or a path. Published models are
                found by ELMO_CACHE, ELMO_MIRROR and ELMO_OFFLINE of the machine.
            layers: `all`, `top`, `average`, `sum`, `concat`, or the number of a layer.
            tokens: the column with a list of strings for each sentence.
            text: the column with a string for each sentence, in place of `tokens`; the tokenizer
                of the model splits it, and the column `tokens` is added.
            pooling: `none`, `mean` or `max` over the tokens of a sentence.
            normalize: whether to scale each vector to length 1.
            device: `auto`, `cpu`, `cuda:0` and so on.
            precision: of the weights; the vectors are float32.

        Raises:
            CheckpointError, DownloadError, DeviceError, SelectionError: the model, or an argument.
        """
        network = open_network(model, device=device, precision=precision, owns_process=True)
        output = select(layers, network.info.layers, pooling=pooling, normalize=normalize)
        self._source = LengthSorted(network, output)
        self._tokens, self._text = tokens, text
        self._split = network.tokenizer()

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Map a table to one with the further columns, in the same order.

        A row whose text or tokens are null has null vectors. Raises FileError for a column that is
        there already, and for a null among the tokens of a row.
        """
        added = {"vectors", "shape", *([self._tokens] if self._text is not None else [])}
        if present := sorted(added & set(table.column_names)):
            raise FileError(f"the table has a column {present[0]!r} already: rename it")
        if self._text is not None:
            texts = table[self._text].to_pylist()
            split = [None if text is None else self._split(text).tokens for text in texts]
            column = pyarrow.array(split, pyarrow.list_(pyarrow.string()))
            table = table.append_column(self._tokens, column)
        rows = table[self._tokens].to_pylist()
        for number, row in enumerate(rows):
            if row is not None and None in row:
                raise FileError(f"row {number}: a token is null; expected strings")
        vectors = iter(self._source.embed(row for row in rows if row is not None))
        arrays = [None if row is None else next(vectors) for row in rows]
        shapes = pyarrow.array(
            [None if array is None else list(array.shape) for array in arrays],
            pyarrow.list_(pyarrow.int64()),
        )
        return table.append_column("vectors", vector_column(arrays)).append_column("shape", shapes)

    def pandas(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Map a frame to one with the further columns and the same index.

        A cell of `vectors` is a flat array, a cell of `shape` its shape.
        """
        table: Any = self(pyarrow.Table.from_pandas(frame, preserve_index=False))
        return table.to_pandas().set_index(frame.index)
