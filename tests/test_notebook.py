"""docs/look.ipynb: every cell runs by public names alone, and prints what the file shows."""

from __future__ import annotations

import ast
import importlib
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.fork_server import with_elmo

PATH = Path(__file__).parents[1] / "docs" / "look.ipynb"
NUMBER = re.compile(r"-?\d+\.\d+")


def read() -> Any:
    """Return the notebook."""
    text = PATH.read_text(encoding="utf-8")
    return nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]


def text_of(outputs: list[Any]) -> str:
    """Return what the outputs of a cell print, without pictures."""
    return "".join(each.get("text", "") for each in outputs)


@pytest.fixture(scope="module")
def cells() -> list[Any]:
    return [cell for cell in read().cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """Return the outputs of the code cells; Jupyter and the cells write to temporary folders."""
    folder, notebook = tmp_path_factory.mktemp("notebook"), read()
    place = {"metadata": {"path": str(folder)}}
    with pytest.MonkeyPatch.context() as variables:
        for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "TMPDIR"):
            variables.setenv(name, str(folder))
        client = NotebookClient(notebook, kernel_name="python3", resources=place)
        client.execute(env=with_elmo(dict(os.environ)))
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_a_small_notebook_that_says_how_to_open_it() -> None:
    notebook = read()

    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert PATH.stat().st_size < 80_000
    assert "pip install jupyterlab matplotlib" in "".join(notebook["cells"][0]["source"])


def test_it_uses_public_names_alone(cells: list[Any]) -> None:
    lines = "\n".join(cell.source for cell in cells).splitlines()
    tree = ast.parse("\n".join(line for line in lines if line[:1] not in ("!", "%")))
    ours = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmo_")
    ]

    assert {node.module for node in ours} == {"elmo_serve"}
    for node in ours:
        public = importlib.import_module(str(node.module)).__all__
        assert {alias.name for alias in node.names} <= set(public)


def test_every_cell_prints_what_the_file_shows(cells: list[Any], outputs: list[list[Any]]) -> None:
    """Renew the outputs with `jupyter execute --inplace docs/look.ipynb`."""
    for cell, found in zip(cells, outputs, strict=True):
        shown, printed = text_of(cell.outputs), text_of(found)
        if "elmo fit" in cell.source:  # scores of four sentences differ between processors
            shown, printed = (text.splitlines()[0] for text in (shown, printed))
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        numbers = [float(each) for each in NUMBER.findall(printed)]
        # 0.02: a rounded digit may differ between processors.
        assert numbers == pytest.approx([float(e) for e in NUMBER.findall(shown)], abs=0.02)
    assert sum("image/png" in each.get("data", {}) for found in outputs for each in found) == 3


def test_its_sentences_are_true(outputs: list[list[Any]]) -> None:
    """Above layer 0 the other river is nearer than the money, as the text beside the cells says."""
    similar = text_of(outputs[2]).partition("centred\n")[2].splitlines()
    rows = [[float(each) for each in NUMBER.findall(line)] for line in similar]

    assert rows[0] == [1.0] * 4
    assert all(row[1] > max(row[2], row[3]) for row in rows[1:])
    spelling, *others = map(float, NUMBER.findall(text_of(outputs[6])))
    assert spelling == 0 and min(others) > 0.1
