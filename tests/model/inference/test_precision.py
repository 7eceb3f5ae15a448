"""The one table of precisions, read by settings, commands and the encoder."""

from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.precision import FORMATS, PRECISIONS, Precision, precision_of
from elmo_serve.cli import main
from elmo_serve.settings import Settings
from tests.support.checkpoints import write_pair


def test_the_table_has_every_precision() -> None:
    assert tuple(FORMATS) == PRECISIONS == get_args(Precision)


def test_an_unknown_precision_names_the_known_ones() -> None:
    assert tuple(map(precision_of, PRECISIONS)) == PRECISIONS
    with pytest.raises(ValueError, match="'int4', expected one of float32, bfloat16, float16, int"):
        precision_of("int4")


def test_the_settings_of_a_server_accept_the_precisions_of_the_table() -> None:
    for name in PRECISIONS:
        assert Settings(precision=name).precision == name


def test_elmo_embed_offers_the_precisions_of_the_table(tmp_path: Path) -> None:
    """F10: `elmo embed --precision` lacked int8."""
    text = tmp_path / "text.txt"
    text.write_text("A sentence .\n", encoding="utf-8")
    command = ["embed", str(text), str(tmp_path / "v.npz"), "--all", "--precision"]
    refused = CliRunner().invoke(main, [*command, "int4"])
    assert refused.exit_code == 2
    for name in PRECISIONS:
        assert f"'{name}'" in refused.output


def test_an_encoder_knows_its_precision(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)), "bfloat16")
    assert encoder.precision == "bfloat16"
    assert encoder.kernel
