"""The one table of precisions, and the choice of one by trial."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.choice import fastest
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.precision import CHOICES, FORMATS, PRECISIONS, Precision, precision_of
from elmo_serve.cli import main
from elmo_serve.settings import Settings
from tests.support.checkpoints import write_pair


def test_the_table_has_every_precision() -> None:
    assert tuple(FORMATS) == PRECISIONS == get_args(Precision)


def test_an_unknown_precision_names_the_known_ones() -> None:
    assert [precision_of(name) for name in CHOICES] == [*PRECISIONS, "auto"]
    with pytest.raises(ValueError, match="'int4', expected one of float32, bfloat16, float16, int"):
        precision_of("int4")


def test_the_settings_of_a_server_accept_the_precisions_of_the_table() -> None:
    for name in CHOICES:
        assert Settings(precision=name).precision == name


def test_elmo_embed_offers_the_precisions_of_the_table(tmp_path: Path) -> None:
    """F10: `elmo embed --precision` lacked int8."""
    text = tmp_path / "text.txt"
    text.write_text("A sentence .\n", encoding="utf-8")
    command = ["embed", str(text), str(tmp_path / "v.npz"), "--all", "--precision"]
    refused = CliRunner().invoke(main, [*command, "int4"])
    assert refused.exit_code == 2
    for name in CHOICES:
        assert f"'{name}'" in refused.output


class Clocked:
    """Networks whose time and whose distance from float32 are given; None for a refused one."""

    def __init__(self, **given: tuple[float, float] | None) -> None:
        self.time, self.given = 0.0, given

    def build(self, precision: Precision) -> "Timed":
        found = self.given.get(precision)
        if found is None:
            raise ValueError(f"{precision} is not there")
        return Timed(self, precision, *found)

    def chosen(self) -> str:
        return fastest(self.build, lambda: self.time).precision


class Timed:
    def __init__(self, of: Clocked, precision: str, seconds: float, distance: float) -> None:
        self.precision = precision
        self._of, self._seconds, self._distance = of, seconds, distance

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        self._of.time += self._seconds
        vectors = torch.tensor([[[1.0, 0.0]], [[1.0, self._distance]]])
        return [vectors.expand(2, len(sentence), 2) for sentence in sentences]


# The cosine of a layer is 1 / sqrt(1 + distance ** 2): 0.99995 and 0.99980.
NEAR, FAR = 0.01, 0.02


@pytest.mark.parametrize(
    ("chosen", "given"),
    [
        ("bfloat16", {"float32": (3, 0), "bfloat16": (1, NEAR), "float16": (2, NEAR)}),
        ("float16", {"float32": (3, 0), "float16": (2, NEAR), "int8": (1, FAR)}),
        ("float32", {"float32": (1, 0), "bfloat16": (1, 0), "float16": (2, 0), "int8": (3, 0)}),
        ("float32", {"float32": (9, 0), "int8": (1, float("nan"))}),
    ],
    ids=["the fastest", "none that is too far", "float32", "nothing that is not finite"],
)
def test_the_fastest_of_those_close_to_float32_is_chosen(
    chosen: str, given: dict[str, tuple[float, float]]
) -> None:
    assert Clocked(**given).chosen() == chosen


def test_an_encoder_knows_its_choice_and_is_that_of_the_precision(tmp_path: Path) -> None:
    elmo = load(write_pair(tmp_path))
    encoder = Encoder.of(elmo, "auto")
    assert encoder.precision in PRECISIONS
    assert encoder.kernel
    same = Encoder.of(elmo, encoder.precision)
    assert same.kernel == encoder.kernel
    assert torch.equal(encoder.embed([["one", "two"]])[0], same.embed([["one", "two"]])[0])
