"""The configuration: to a dictionary and back, and no contradiction."""

from copy import deepcopy
from typing import Any

import pytest

from elmo_model.network.config import (
    CharCNNConfig,
    ConfigError,
    ElmoConfig,
    LSTMConfig,
    WordsConfig,
)

PUBLISHED = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


def published(cell: int, projection: int, highways: int) -> ElmoConfig:
    return ElmoConfig(
        CharCNNConfig(262, 16, PUBLISHED, highways, "relu", 50),
        LSTMConfig(2, cell, projection, 3.0, 3.0, True),
    )


@pytest.mark.parametrize(
    ("cell", "projection", "highways", "parameters"),
    [(1024, 128, 1, 13_593_296), (2048, 256, 1, 28_027_728), (4096, 512, 2, 93_600_848)],
    ids=["small", "medium", "original"],
)
def test_parameters_are_the_published_figures(
    cell: int, projection: int, highways: int, parameters: int
) -> None:
    assert published(cell, projection, highways).parameter_count == parameters


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("lstm", "cell", 0, "lstm.cell is 0"),
        ("lstm", "layers", 1 << 40, "1048576"),
        ("lstm", "cell_clip", -1, "lstm.cell_clip"),
        ("lstm", "projection_clip", float("nan"), "lstm.projection_clip"),
        ("lstm", "projected", False, r"expected lstm.projection to equal lstm.cell \(1024\)"),
        ("char_cnn", "activation", "gelu", "gelu"),
        ("char_cnn", "filters", [], "pairs"),
        ("char_cnn", "filters", [[1, "4"]], "pairs"),
        ("char_cnn", "max_characters", 6, "7 characters"),
        ("char_cnn", "projection", False, r"equal the sum of char_cnn.filters \(2048\), found 128"),
        ("char_cnn", "colour", "red", "char_cnn.colour"),
    ],
)
def test_a_contradiction_names_key_value_and_rule(
    section: str, key: str, value: object, message: str
) -> None:
    values: dict[str, Any] = deepcopy(published(1024, 128, 1).to_dict())
    values[section][key] = value
    with pytest.raises(ConfigError, match=message):
        ElmoConfig.from_dict(values)


def test_a_missing_key_is_named() -> None:
    values = published(1024, 128, 1).to_dict()
    del values["lstm"]["layers"]
    with pytest.raises(ConfigError, match=r"lstm\.layers is missing"):
        ElmoConfig.from_dict(values)
    with pytest.raises(ConfigError, match="char_cnn is missing"):
        ElmoConfig.from_dict({})
    with pytest.raises(ConfigError, match="object"):
        ElmoConfig.from_dict({**values, "lstm": []})


SPELT = CharCNNConfig(262, 16, PUBLISHED, 1, "relu", 50, projection=False)
LSTM = LSTMConfig(2, 1024, 128, 3.0, 3.0, True)


@pytest.mark.parametrize(
    "config",
    [
        published(1024, 128, 1),
        ElmoConfig(SPELT, LSTM, WordsConfig(7, 100, projection=True)),
        ElmoConfig(None, LSTM, WordsConfig(1_500_000, 100, projection=True)),
        ElmoConfig(None, LSTM, WordsConfig(7, 128, projection=False), aligned=True),
    ],
    ids=["characters", "words and characters", "words", "words, aligned"],
)
def test_a_configuration_survives_a_dictionary(config: ElmoConfig) -> None:
    values = config.to_dict()
    assert ElmoConfig.from_dict(values) == config
    assert ("char_cnn" in values) == (config.char_cnn is not None)
    assert ("aligned" in values) == config.aligned


@pytest.mark.parametrize(
    ("words", "char_cnn", "message"),
    [
        ({"count": 1 << 32}, None, "2147483648"),
        ({"projection": False}, None, r"sum of char_cnn.filters \(100\), found 128"),
        ({}, {"projection": True}, "beside words"),
        ({"projection": False}, {}, r"\(2148\), found 128"),
    ],
)
def test_a_contradiction_of_words_names_key_value_and_rule(
    words: dict[str, object], char_cnn: dict[str, object] | None, message: str
) -> None:
    values = ElmoConfig(SPELT, LSTM, WordsConfig(7, 100, projection=True)).to_dict()
    values["words"] |= words
    if char_cnn is None:
        del values["char_cnn"]
    else:
        values["char_cnn"] |= char_cnn
    with pytest.raises(ConfigError, match=message):
        ElmoConfig.from_dict(values)


def test_a_network_reads_characters_or_words() -> None:
    with pytest.raises(ConfigError, match="both"):
        ElmoConfig(None, LSTM)
