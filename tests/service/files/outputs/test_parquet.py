"""Parquet files, and the message where pyarrow is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet

from elmo_model.network.elmo import ElmoNetwork
from elmo_serve.files.inputs import Sentence
from elmo_serve.files.outputs.output_format import Facts
from elmo_serve.files.outputs.parquet import FORMAT
from elmo_serve.selection import Output
from elmo_serve.workers.messages import ModelInfo
from tests.support.embedding_runs import TEXT, done
from tests.support.servers import SMALL
from tests.support.vectors import close, layers_of


def test_parquet_has_a_row_a_sentence(text: Path, tmp_path: Path, elmo: ElmoNetwork) -> None:
    done(text, tmp_path / "out.parquet", "--all")

    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["index"].to_pylist() == [0, 1, 2, 3, 4]
    assert table["tokens"].to_pylist() == [line.split() for line in TEXT]
    facts = table.schema.metadata
    shape = json.loads(facts[b"shape"])
    assert (shape, json.loads(facts[b"layers"])) == ([3, -1, 32], [0, 1, 2])
    assert facts[b"revision"].decode() == elmo.origin.revision
    for row, layers in enumerate(layers_of(elmo, [line.split() for line in TEXT])):
        close(np.array(table["vectors"][row].as_py(), np.float32).reshape(shape), layers)


def test_parquet_without_pyarrow_says_what_to_install(text: Path, tmp_path: Path) -> None:
    # None in sys.modules is how Python itself says that a module is not to be had.
    hidden = "import sys; sys.modules['pyarrow'] = None; from elmo_serve.cli import main; main()"
    arguments = ["embed", str(text), str(tmp_path / "o.parquet"), "--top", "--model", str(SMALL)]

    run = subprocess.run(
        [sys.executable, "-c", hidden, *arguments], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert run.stderr == (
        "elmo: Parquet needs pyarrow, which is not installed: pip install 'elmo-serve[parquet]'\n"
    )


def test_large_files_have_several_row_groups(tmp_path: Path) -> None:
    """A reader needs the memory of one group, not of the file."""
    width = 1 << 20  # 4 MiB a sentence: four of them fill a group of 16 MiB
    info = ModelInfo("m", "1", "none", 1, width, 0, "float32")
    items = ((Sentence("a", ["a"]), np.full((1, width), n, np.float32)) for n in range(9))

    FORMAT.write(tmp_path / "out", items, Facts(info, Output(layers=(0,))))

    file = pyarrow.parquet.ParquetFile(tmp_path / "out")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [4, 4, 1]
    assert [row["vectors"][0].as_py()[0] for row in file.iter_batches(1)] == list(range(9))
