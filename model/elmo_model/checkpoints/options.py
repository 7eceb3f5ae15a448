"""The options file of bilm-tf: the sizes and rules of a network, checked value by value."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from elmo_model.alphabets import Utf8Alphabet
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.layout import FORGET_BIAS
from elmo_model.checkpoints.source import Source
from elmo_model.config import CharCNNConfig, ConfigError, ElmoConfig, LSTMConfig, WordsConfig

_MAX_SIZE = 1 << 20  # bytes


def read(source: Source, file: str) -> "OptionsFile":
    """Read an options file. Raises CheckpointError if it is no JSON object."""
    return parse(source.label(file), source.read(file, _MAX_SIZE))


def parse(label: str, content: bytes) -> "OptionsFile":
    """Parse the text of an options file; messages begin with `label`. Raises CheckpointError."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: is not JSON: {error}") from error
    options = OptionsFile(label, values)
    options.section("lstm")  # every model has one, and no other JSON file
    return options


def config_of(
    options: "OptionsFile", names: Collection[str], words: int | None = None
) -> ElmoConfig:
    """Return the configuration that the options and the `names` of the arrays describe.

    The names decide where the options leave open whether a projection exists. `words` is the
    length of the vocabulary of a word-input model; its options may describe characters, which are
    then ignored. Raises CheckpointError for missing, wrong or contradictory options.
    """
    cell, projection = options.whole("lstm", "dim"), options.whole("lstm", "projection_dim")
    skip = options.section("lstm").get("use_skip_connections", False)
    if not isinstance(skip, bool):
        raise options.wrong("lstm.use_skip_connections", skip, "true or false")
    char_cnn = _char_cnn(options, names, projection) if words is None else None
    try:
        return ElmoConfig(
            char_cnn,
            LSTMConfig(
                layers=options.whole("lstm", "n_layers", default=1),
                cell=cell,
                projection=projection,
                cell_clip=options.clip("cell_clip"),
                projection_clip=options.clip("proj_clip"),
                skip=skip,
                projected=cell != projection
                or "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in names,
                forget_bias=FORGET_BIAS,
            ),
            None if words is None else WordsConfig(words, projection, projection=False),
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
class OptionsFile:
    """The values of an options file. Each method reads one value and raises CheckpointError."""

    label: str
    values: Any

    @property
    def has_characters(self) -> bool:
        """Whether the model has character input; a word-input model has not."""
        return "char_cnn" in self.section()

    def section(self, *keys: str) -> dict[str, Any]:
        """Return the object under these keys, or the whole file without keys."""
        value = self.values
        if not isinstance(value, dict):
            raise CheckpointError(
                f"{self.label}: holds a {type(value).__name__}, expected an object"
            )
        for depth, key in enumerate(keys):
            if key not in value:
                name = ".".join(keys[: depth + 1])
                raise CheckpointError(f"{self.label}: {name} is missing, expected an object")
            value = value[key]
            if not isinstance(value, dict):
                raise self.wrong(".".join(keys[: depth + 1]), value, "an object")
        return value

    def whole(self, *keys: str, least: int = 1, default: int | None = None) -> int:
        """Return a whole number of at least `least`, or `default` if it is missing."""
        name, value = ".".join(keys), self.section(*keys[:-1]).get(keys[-1], default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(name, value, f"a whole number of at least {least}")
        return value

    def clip(self, key: str) -> float | None:
        """Return a clip of `lstm`; None if it is missing, null or 0."""
        value = self.section("lstm").get(key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < float("inf"):
            raise self.wrong(f"lstm.{key}", value, "a number of at least 0, or null")
        return float(value) or None

    def filters(self) -> tuple[tuple[int, int], ...]:
        """Return the convolutions as pairs of width and count."""
        value = self.section("char_cnn").get("filters")
        pairs = value if isinstance(value, list) else []
        sound = all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in pair)
            for pair in pairs
        )
        if not pairs or not sound:
            raise self.wrong("char_cnn.filters", value, "a list of [width, count]")
        return tuple((width, count) for width, count in pairs)

    def wrong(self, name: str, value: object, expected: str) -> CheckpointError:
        """Return the error for a value."""
        return CheckpointError(f"{self.label}: {name} is {value!r:.80}, expected {expected}")


def _char_cnn(options: OptionsFile, names: Collection[str], projection: int) -> CharCNNConfig:
    filters = options.filters()
    limit = options.whole("char_cnn", "max_characters_per_token", least=3)
    widest = max(width for width, _ in filters)
    if widest > limit:
        raise options.wrong(
            "char_cnn.max_characters_per_token",
            limit,
            f"at least {widest}, the widest of char_cnn.filters",
        )
    activation = options.section("char_cnn").get("activation")
    if activation not in ("relu", "tanh"):
        raise options.wrong("char_cnn.activation", activation, "'relu' or 'tanh'")
    # bilm-tf writes 261 when it trains and demands 262 for inference; the network is the same.
    characters = options.section("char_cnn").get("n_characters")
    if characters not in (None, 261, 262):
        raise options.wrong("char_cnn.n_characters", characters, "261 or 262")
    highways = options.section("char_cnn").get("n_highway")
    width = sum(count for _, count in filters)
    try:
        return CharCNNConfig(
            characters=Utf8Alphabet.size,
            embedding=options.whole("char_cnn", "embedding", "dim"),
            filters=filters,
            highways=0 if highways is None else options.whole("char_cnn", "n_highway", least=0),
            activation=activation,
            max_characters=limit,
            # bilm-tf has no projection if the sizes are equal; AllenNLP always has one.
            projection=width != projection or "CNN_proj/W_proj" in names,
        )
    except ConfigError as error:
        raise CheckpointError(f"{options.label}: {error}") from error
