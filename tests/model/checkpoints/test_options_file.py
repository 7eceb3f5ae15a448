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
    (b"{", "JSON"),
    (b"{}", "lstm is missing"),
    (b'{"lstm": null}', "lstm is missing"),
    (b'{"lstm": 3}', "lstm is 3"),
    (text({"dim": 0}), "dim is 0"),
    (text({"dim": True}), "dim is true"),
    (text({"dim": None}), "dim is null"),
    (text({"dim": "8"}), "dim is '8'"),
    (text({"proj_clip": float("nan")}), "proj_clip"),
    (text({"cell_clip": -1}), "cell_clip"),
    (text({"use_skip_connections": 1}), "use_skip_connections"),
    (text(char_cnn={"filters": []}), r"filters is \[\]"),
    (text(char_cnn={"filters": [[1, 0]]}), r"filters is \[\["),
    (text(char_cnn={"embedding": 16}), "embedding is 16"),
    (text(char_cnn={"max_characters_per_token": 2}), "max_characters_per_token"),
    (text(char_cnn={"filters": [[60, 1]]}), "60 characters"),
    (text(char_cnn={"activation": "gelu"}), "gelu"),
    (text(char_cnn={"n_characters": 260}), "n_characters"),
]


@pytest.mark.parametrize(("content", "message"), WRONG)
def test_a_wrong_value_is_named(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as refusal:
        config_of(parse("label", content), ())

    assert "\n" not in str(refusal.value)
