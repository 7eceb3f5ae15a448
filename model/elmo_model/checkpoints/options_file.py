"""The options file of bilm-tf: the sizes and rules of a network, checked by pydantic."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.bilm_layout import FORGET_BIAS
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import Source
from elmo_model.network.config import (
    Activation,
    CharCNNConfig,
    ConfigError,
    ElmoConfig,
    LSTMConfig,
    WordsConfig,
)
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_model.validation import (
    CharacterLimit,
    Count,
    Filters,
    Flag,
    Number,
    Size,
    rule,
    validated,
)

Clip = Annotated[Annotated[Number, Field(ge=0)] | None, rule("a number of at least 0, or null")]
"""A clip of bilm-tf or ELMoForManyLangs, where 0 and null both mean none."""

_Section = TypeVar("_Section", bound=BaseModel)

_MAX_SIZE = 1 << 20  # bytes


def read(source: Source, file: str) -> "OptionsFile":
    """Read an options file. Raises CheckpointError if it is no JSON object."""
    return parse(source.label(file), source.read(file, _MAX_SIZE))


def parse(label: str, content: bytes) -> "OptionsFile":
    """Parse the text of an options file; messages begin with `label`. Raises CheckpointError."""
    options = OptionsFile(label, json_object(label, content))
    options.section("lstm", BaseModel)  # every model has one, and no other JSON file
    return options


def json_object(label: str, content: bytes | str) -> dict[str, Any]:
    """Return the object of a JSON text. Raises CheckpointError for anything else."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{label}: holds a {type(values).__name__}, expected an object")
    return values


def config_of(
    options: "OptionsFile", names: Collection[str], words: int | None = None
) -> ElmoConfig:
    """Return the configuration that the options and the `names` of the arrays describe.

    The names decide where the options leave open whether a projection exists. `words` is the
    length of the vocabulary of a word-input model; its options may describe characters, which are
    then ignored. Raises CheckpointError for missing, wrong or contradictory options.
    """
    lstm = options.section("lstm", _Lstm)
    char_cnn = None
    try:
        if words is None:
            char_cnn = _char_cnn(options.section("char_cnn", _CharCNN), names, lstm.projection_dim)
        return ElmoConfig(
            char_cnn,
            LSTMConfig(
                layers=lstm.n_layers,
                cell=lstm.dim,
                projection=lstm.projection_dim,
                cell_clip=lstm.cell_clip or None,
                projection_clip=lstm.proj_clip or None,
                skip=lstm.use_skip_connections,
                projected=lstm.dim != lstm.projection_dim
                or "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in names,
                forget_bias=FORGET_BIAS,
            ),
            None if words is None else WordsConfig(words, lstm.projection_dim, projection=False),
        )
    except ConfigError as error:
        raise CheckpointError(f"{options.label}: {error}") from error


def options_of(config: ElmoConfig) -> dict[str, Any]:
    """Return the options of a network; an alignment has none."""
    cnn, lstm = config.char_cnn, config.lstm
    options: dict[str, Any] = {
        "lstm": {
            "cell_clip": lstm.cell_clip,
            "use_skip_connections": lstm.skip,
            "n_layers": lstm.layers,
            "proj_clip": lstm.projection_clip,
            "projection_dim": lstm.projection,
            "dim": lstm.cell,
        },
    }
    if cnn:
        options["char_cnn"] = {
            "embedding": {"dim": cnn.embedding},
            "filters": [list(pair) for pair in cnn.filters],
            "n_highway": cnn.highways,
            "n_characters": Utf8Alphabet.size,
            "max_characters_per_token": cnn.max_characters,
            "activation": cnn.activation,
        }
    return options


@dataclass(frozen=True, slots=True)
class Names:
    """The arrays of a format whose shapes give all sizes of a network; {} is their number.

    `is_torch` tells the order of axes: filters of (count, embedding, width) and matrices of
    (output, input), else filters of (1, width, embedding, count) and matrices of (input, output).
    """

    table: str
    convolution: str
    highway: str
    projection: str
    bias: str
    is_torch: bool = False


def of_shapes(arrays: Arrays, names: Names) -> "OptionsFile":
    """Return the options of the sizes of some arrays, with what all published models share.

    These are the clips, the activation and the characters a token. Raises CheckpointError.
    """
    layers = arrays.count(names.bias)
    filters = []
    for number in range(arrays.count(names.convolution)):
        shape = arrays.sizes(names.convolution.format(number), 3 if names.is_torch else 4)
        filters.append((shape[2], shape[0]) if names.is_torch else (shape[1], shape[3]))
    embedding = arrays.sizes(names.table, 2)[1]
    gates = arrays.sizes(names.bias.format(0), 1)[0]
    projection = arrays.sizes(names.projection, 2)[0 if names.is_torch else 1]
    highways = arrays.count(names.highway)
    try:
        cnn = CharCNNConfig(Utf8Alphabet.size, embedding, tuple(filters), highways, "relu", 50)
        config = ElmoConfig(cnn, LSTMConfig(layers, gates // 4, projection, 3.0, 3.0, skip=True))
    except ConfigError as error:
        raise CheckpointError(f"{arrays.label}: {error}") from error
    return OptionsFile(arrays.label, options_of(config))


ASSUMED = "clips of 3, relu and 50 characters a token were assumed, as in all published models"
"""The note on a model whose files lack these values."""


@dataclass(frozen=True, slots=True)
class OptionsFile:
    """The values of an options file."""

    label: str
    values: Mapping[str, Any]

    def section(self, key: str, kind: type[_Section]) -> _Section:
        """Return the object of a key as a model. Raises CheckpointError for a wrong value."""
        if self.values.get(key) is None:
            raise CheckpointError(f"{self.label}: {key} is missing, expected an object")
        try:
            return validated(kind, self.values[key], key)
        except ValueError as error:
            raise CheckpointError(f"{self.label}: {error}") from error


class _Lstm(BaseModel):
    dim: Size
    projection_dim: Size
    n_layers: Size = 1
    cell_clip: Clip = None
    proj_clip: Clip = None
    use_skip_connections: Flag = False


class _Embedding(BaseModel):
    dim: Size


class _CharCNN(BaseModel):
    embedding: _Embedding
    filters: Filters
    max_characters_per_token: CharacterLimit
    activation: Activation
    # bilm-tf writes 261 when it trains and demands 262 for inference; the network is the same.
    n_characters: Literal[261, 262] | None = None
    n_highway: Count | None = None


def _char_cnn(options: _CharCNN, names: Collection[str], projection: int) -> CharCNNConfig:
    width = sum(count for _, count in options.filters)
    return CharCNNConfig(
        characters=Utf8Alphabet.size,
        embedding=options.embedding.dim,
        filters=options.filters,
        highways=options.n_highway or 0,
        activation=options.activation,
        max_characters=options.max_characters_per_token,
        # bilm-tf has no projection if the sizes are equal; AllenNLP always has one.
        projection=width != projection or "CNN_proj/W_proj" in names,
    )
