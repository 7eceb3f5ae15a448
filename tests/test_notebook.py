"""docs/look.ipynb: every cell runs, and prints what the file shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.notebooks import read, run, text_of

PATH = Path(__file__).parents[1] / "docs" / "look.ipynb"
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    return [cell for cell in read(PATH)["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def outputs() -> list[list[dict[str, Any]]]:
    return run(read(PATH))


def test_the_file_is_a_small_notebook_of_format_4() -> None:
    notebook = read(PATH)

    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert PATH.stat().st_size < 50_000


def test_every_cell_prints_what_the_file_shows(
    cells: list[dict[str, Any]], outputs: list[list[dict[str, Any]]]
) -> None:
    """Renew the outputs with `python -m tests.support.notebooks docs/look.ipynb`."""
    for cell, found in zip(cells, outputs, strict=True):
        shown, printed = text_of(cell["outputs"]), text_of(found)
        assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
        numbers = [float(each) for each in NUMBER.findall(printed)]
        # 0.02: a rounded digit may differ between processors.
        assert numbers == pytest.approx([float(e) for e in NUMBER.findall(shown)], abs=0.02)


def test_the_pictures_are_svg(outputs: list[list[dict[str, Any]]]) -> None:
    pictures = [
        "".join(each["data"]["image/svg+xml"])
        for cell in outputs
        for each in cell
        if "image/svg+xml" in each.get("data", {})
    ]

    assert len(pictures) == 2
    assert all(ElementTree.fromstring(each).tag.endswith("svg") for each in pictures)


def test_its_sentences_are_true(outputs: list[list[dict[str, Any]]]) -> None:
    """Above layer 0 the other river is nearer than the money, as the text beside the cells says."""
    similar = text_of(outputs[2]).partition("centred\n")[2].splitlines()
    rows = [[float(each) for each in NUMBER.findall(line)] for line in similar]

    assert rows[0] == [1.0] * 4
    assert all(row[1] > max(row[2], row[3]) for row in rows[1:])
    mixes = text_of(outputs[5]).splitlines()
    money = [float(NUMBER.findall(line)[2]) for line in mixes]
    assert money[0] > money[1] > money[2], "layer 0, the average, mostly layer 2"
