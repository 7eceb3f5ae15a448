"""The configuration of a network: sizes and rules as frozen values, to and from dictionaries."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

Activation = Literal["relu", "tanh"]

# The largest size of any kind: far above every published one, far below an integer overflow.
GREATEST = 1 << 20


class ConfigError(ValueError):
    """A configuration that contradicts itself; the message names key, value and rule."""


@dataclass(frozen=True, slots=True)
class CharCNNConfig:
    """The token encoder: characters, convolutions, highways, projection.

    `characters` is the number of rows of the character table, with the row of id 0 ("no token").
    `filters` are pairs of width in characters and count. Without `projection` the output of the
    highways is the token vector.
    """

    characters: int
    embedding: int
    filters: tuple[tuple[int, int], ...]
    highways: int
    activation: Activation
    max_characters: int
    projection: bool = True

    def __post_init__(self) -> None:
        for key in ("characters", "embedding", "max_characters"):
            _at_least(1, f"char_cnn.{key}", getattr(self, key))
        _at_least(0, "char_cnn.highways", self.highways)
        _is_a(bool, "char_cnn.projection", self.projection)
        # begin-of-word, one character, end-of-word
        _at_least(3, "char_cnn.max_characters", self.max_characters)
        if self.activation not in get_args(Activation):
            known = " or ".join(get_args(Activation))
            raise ConfigError(f"char_cnn.activation is {self.activation!r}, expected {known}")
        if not self.filters:
            raise ConfigError("char_cnn.filters is empty, expected pairs of width and count")
        for width, count in self.filters:
            _at_least(1, "width in char_cnn.filters", width)
            _at_least(1, "count in char_cnn.filters", count)
        if self.widest > self.max_characters:
            raise ConfigError(
                f"char_cnn.filters has a filter {self.widest} characters wide, expected at most "
                f"char_cnn.max_characters, which is {self.max_characters}"
            )

    @property
    def width(self) -> int:
        """F, the number of filters of all widths."""
        return sum(count for _, count in self.filters)

    @property
    def widest(self) -> int:
        """The width of the widest filter in characters."""
        return max(width for width, _ in self.filters)


@dataclass(frozen=True, slots=True)
class LSTMConfig:
    """One direction of the biLM: `layers` LSTMs of `cell` units, `projection` wide at the output.

    Clips are symmetric bounds; None means no clip. Without `projected` the output is that of the
    cell (`cell` equals `projection` then) and `projection_clip` does not apply: TensorFlow's
    LSTMCell clips only projected outputs. `forget_bias` is added to the stored bias of the forget
    gate: 1 for the files of bilm-tf, 0 for files that hold the sum already.
    """

    layers: int
    cell: int
    projection: int
    cell_clip: float | None
    projection_clip: float | None
    skip: bool
    projected: bool = True
    forget_bias: float = 1.0

    def __post_init__(self) -> None:
        for key in ("layers", "cell", "projection"):
            _at_least(1, f"lstm.{key}", getattr(self, key))
        for key in ("cell_clip", "projection_clip"):
            clip = getattr(self, key)
            if clip is not None and not (_is_number(clip) and clip > 0):
                raise ConfigError(f"lstm.{key} is {clip!r}, expected a positive number or null")
        for key in ("skip", "projected"):
            _is_a(bool, f"lstm.{key}", getattr(self, key))
        if not _is_number(self.forget_bias):
            raise ConfigError(f"lstm.forget_bias is {self.forget_bias!r}, expected a number")
        if not self.projected and self.cell != self.projection:
            raise ConfigError(
                f"lstm.projected is false, expected lstm.projection to equal lstm.cell "
                f"({self.cell}), found {self.projection}"
            )


@dataclass(frozen=True, slots=True)
class WordsConfig:
    """A table of word vectors: `count` rows, each `width` wide.

    With a character CNN the row of a word is concatenated before the output of the CNN. With
    `projection` a linear map takes this, or the row alone, to the token vector.
    """

    count: int
    width: int
    projection: bool

    def __post_init__(self) -> None:
        for key in ("count", "width"):
            _at_least(1, f"words.{key}", getattr(self, key))
        _is_a(bool, "words.projection", self.projection)


@dataclass(frozen=True, slots=True)
class ElmoConfig:
    """A whole network: token encoder and biLM.

    The token encoder is a character CNN, a table of words, or both; with both, the projection of
    `words` is used. With `aligned` a matrix maps mixed vectors to a space that languages share.
    """

    char_cnn: CharCNNConfig | None
    lstm: LSTMConfig
    words: WordsConfig | None = None
    aligned: bool = False

    def __post_init__(self) -> None:
        cnn, words, width = self.char_cnn, self.words, self.lstm.projection
        _is_a(bool, "aligned", self.aligned)
        if cnn is None and words is None:
            raise ConfigError("char_cnn and words are both missing, expected at least one")
        if cnn and not words and not cnn.projection and cnn.width != width:
            raise ConfigError(
                f"char_cnn.projection is false, expected lstm.projection to equal the sum of "
                f"char_cnn.filters ({cnn.width}), found {width}"
            )
        if cnn and words and cnn.projection:
            raise ConfigError(
                "char_cnn.projection is true, expected false beside words, which have their own"
            )
        if words and not words.projection and self.token_width != width:
            raise ConfigError(
                f"words.projection is false, expected lstm.projection to equal words.width and "
                f"the sum of char_cnn.filters ({self.token_width}), found {width}"
            )

    @property
    def token_width(self) -> int:
        """Width of the word's row and the output of the character CNN, before any projection."""
        cnn, words = self.char_cnn, self.words
        return (words.width if words else 0) + (cnn.width if cnn else 0)

    @property
    def layers(self) -> int:
        """L + 1: the token layer and the layers of the biLM."""
        return self.lstm.layers + 1

    @property
    def dimension(self) -> int:
        """2P: both directions concatenated."""
        return 2 * self.lstm.projection

    @property
    def parameter_count(self) -> int:
        """The number of learnt parameters, as published figures count them.

        The row of character id 0 and an alignment, which is fitted after training, do not count.
        """
        cnn, words, lstm = self.char_cnn, self.words, self.lstm
        gates = (2 * lstm.projection + 1) * 4 * lstm.cell
        output = lstm.cell * lstm.projection if lstm.projected else 0
        total = 2 * lstm.layers * (gates + output)
        if cnn:
            total += (cnn.characters - 1) * cnn.embedding
            total += sum((width * cnn.embedding + 1) * count for width, count in cnn.filters)
            total += cnn.highways * 2 * (cnn.width + 1) * cnn.width
        if words:
            total += words.count * words.width
        if (words and words.projection) or (cnn and cnn.projection):
            total += (self.token_width + 1) * lstm.projection
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, strings, lists and dictionaries, for JSON.

        Keys of parts that the network lacks are left out.
        """
        values = {key: value for key, value in asdict(self).items() if value not in (None, False)}
        if self.char_cnn:
            values["char_cnn"]["filters"] = [list(pair) for pair in self.char_cnn.filters]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration that `to_dict` wrote. Raises ConfigError for anything else."""
        optional = {"words", "aligned"} | ({"char_cnn"} if "words" in values else set())
        _only_keys_of(cls, "configuration", values, optional)
        cnn, lstm, words = values.get("char_cnn"), values["lstm"], values.get("words")
        _only_keys_of(LSTMConfig, "lstm", lstm)
        if words is not None:
            _only_keys_of(WordsConfig, "words", words)
        return cls(
            None if cnn is None and words is not None else _char_cnn(cnn),
            LSTMConfig(**lstm),
            None if words is None else WordsConfig(**words),
            values.get("aligned", False),
        )


def _char_cnn(values: Any) -> CharCNNConfig:
    _only_keys_of(CharCNNConfig, "char_cnn", values)
    filters = values["filters"]
    if not isinstance(filters, list) or not all(_is_pair(pair) for pair in filters):
        raise ConfigError(f"char_cnn.filters is {filters!r:.80}, expected pairs of width and count")
    pairs = tuple((width, count) for width, count in filters)
    return CharCNNConfig(**{**values, "filters": pairs})


def _only_keys_of(
    kind: type, name: str, values: object, optional: Collection[str] = frozenset()
) -> None:
    expected = {field.name for field in fields(kind)}
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name} is a {type(values).__name__}, expected an object")
    if missing := sorted(expected - values.keys() - set(optional)):
        raise ConfigError(f"{name} lacks {', '.join(missing)}")
    if unknown := sorted(values.keys() - expected):
        raise ConfigError(
            f"{name} has {', '.join(unknown)}, expected only {', '.join(sorted(expected))}"
        )


def _at_least(least: int, key: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= GREATEST:
        raise ConfigError(
            f"{key} is {value!r:.80}, expected a whole number from {least} to {GREATEST:,}"
        )


def _is_a(kind: type, key: str, value: object) -> None:
    if not isinstance(value, kind):
        raise ConfigError(f"{key} is {value!r:.80}, expected a {kind.__name__}")


def _is_number(value: object) -> bool:
    finite = isinstance(value, int | float) and abs(value) < float("inf")
    return finite and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2
