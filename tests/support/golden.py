"""The golden outputs of AllenNLP, as parity tests read them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

GOLDEN = Path(__file__).parent.parent / "golden"
SMALL = GOLDEN / "allennlp" / "small"

Array = npt.NDArray[Any]


def sentences() -> list[list[str]]:
    """Return the twelve sentences."""
    return list(_file()["sentences"])


def batches() -> Iterator[tuple[int, list[int], list[list[str]]]]:
    """Yield each batch: its number, the numbers of its sentences, the sentences."""
    every = sentences()
    for number, members in enumerate(_file()["batches"]):
        yield number, members, [every[member] for member in members]


def arrays(name: str) -> dict[str, Array]:
    """Return the arrays of one npz file."""
    with np.load(SMALL / f"{name}.npz") as file:
        return dict(file)


def _file() -> dict[str, Any]:
    content = (GOLDEN / "allennlp" / "sentences.json").read_text(encoding="utf-8")
    return dict(json.loads(content))
