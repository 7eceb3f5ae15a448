"""The options file: each value is checked, and a configuration survives writing."""

import json
from typing import Any

import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.options_file import config_of, parse

LSTM = {"dim": 8, "projection_dim": 4, "n_layers": 2, "cell_clip": 3, "proj_clip": None}
CHARACTERS = {
    "embedding": {"dim": 4},
    "filters": [[1, 4], [2, 8]],
    "n_highway": 1,
    "n_characters": 262,
    "max_characters_per_token": 50,
    "activation": "relu",
}


def text(lstm: dict[str, Any] | None = None, char_cnn: dict[str, Any] | None = None) -> bytes:
    return json.dumps(
        {"lstm": {**LSTM, **(lstm or {})}, "char_cnn": {**CHARACTERS, **(char_cnn or {})}}
    ).encode()


@pytest.mark.parametrize("clip", [0, None])
def test_a_clip_of_zero_is_none(clip: int | None) -> None:
    assert config_of(parse("label", text({"cell_clip": clip})), ()).lstm.cell_clip is None


WRONG: list[tuple[bytes, str]] = [
    (b"{", "label: is not JSON"),
    (b"{}", "label: lstm is missing, expected an object"),
    (b'{"lstm": null}', "label: lstm is missing, expected an object"),
    (b'{"lstm": 3}', "label: lstm is 3, expected an object"),
    (text({"dim": 0}), r"lstm\.dim is 0, expected .* 1"),
    (text({"dim": True}), r"lstm\.dim is true"),
    (text({"dim": None}), r"lstm\.dim is null, expected a valid integer"),
    (text({"dim": "8"}), r"lstm\.dim is '8', expected a valid integer"),
    (text({"proj_clip": float("nan")}), r"lstm\.proj_clip is nan, expected a number"),
    (text({"cell_clip": -1}), r"lstm\.cell_clip is -1, expected a number of at least 0, or null"),
    (text({"use_skip_connections": 1}), r"use_skip_connections is 1, expected a valid boolean"),
    (text(char_cnn={"filters": []}), r"char_cnn\.filters is \[\], expected pairs of"),
    (text(char_cnn={"filters": [[1, 0]]}), r"char_cnn\.filters is \[\[1, 0\]\]"),
    (text(char_cnn={"embedding": 16}), r"char_cnn\.embedding is 16, expected an object"),
    (text(char_cnn={"max_characters_per_token": 2}), "max_characters_per_token is 2, expected"),
    (text(char_cnn={"filters": [[60, 1]]}), "a filter 60 characters wide, expected at most .* 50"),
    (text(char_cnn={"activation": "gelu"}), "activation is 'gelu', expected 'relu' or 'tanh'"),
    (text(char_cnn={"n_characters": 260}), "n_characters is 260, expected 261 or 262"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_a_wrong_value_is_named(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as refusal:
        config_of(parse("label", content), ())

    assert "\n" not in str(refusal.value)
