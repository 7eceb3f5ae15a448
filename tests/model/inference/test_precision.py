"""The one table of precisions."""

from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from elmo_model.inference.precision import CHOICES, FORMATS, PRECISIONS, Precision, precision_of
from elmo_serve.cli import main
from elmo_serve.settings import Settings


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
