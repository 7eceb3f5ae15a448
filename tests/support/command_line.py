"""The command line, run in this process without the ELMO_* variables of the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from click.testing import CliRunner, Result

from elmo_model.models.opening import open_model
from elmo_serve.cli import main

SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60]]


def elmo(*arguments: object, **environment: str) -> Result:
    clean = {name: None for name in os.environ if name.startswith("ELMO_")}
    with contextlib.chdir("."):  # `elmo serve` leaves the folder of its start
        return CliRunner().invoke(main, list(map(str, arguments)), env={**clean, **environment})


def index_of(folder: Path, model: Path, sentences: Sequence[str]) -> Path:
    """Return the folder of an index that `elmo index` has made of tokenised sentences."""
    text = folder / f"{model.name}.txt"
    text.write_text("\n".join(sentences))
    target = folder / f"index of {model.name}"
    result = elmo("index", text, target, "--tokenised", "--model", model)
    assert result.exit_code == 0, result.output
    return target


def vectors(path: Path) -> list[np.ndarray]:
    return [each.numpy() for each in open_model(path).embed(SENTENCES)]


def assert_equal_to_the_bit(left: Path, right: Path) -> None:
    one, two = open_model(left).state_dict(), open_model(right).state_dict()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    for mine, theirs in zip(vectors(left), vectors(right), strict=True):
        np.testing.assert_array_equal(mine, theirs)
