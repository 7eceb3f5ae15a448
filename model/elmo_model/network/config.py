"""The configuration of a network: sizes and rules as frozen values, to and from dictionaries."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from elmo_model.errors import ElmoError
from elmo_model.validation import (
    CharacterLimit,
    Count,
    Filters,
    Flag,
    Number,
    Rows,
    Size,
    checked_dataclass,
    rule,
    validated,
)

Activation = Literal["relu", "tanh"]

_Clip = Annotated[Annotated[Number, Field(gt=0)] | None, rule("a positive number or null")]


class ConfigError(ElmoError):
    """A configuration that contradicts itself; the message names key, value and rule."""


@checked_dataclass("char_cnn", ConfigError)
class CharCNNConfig:
    """The token encoder: characters, convolutions, highways, projection.

    `characters` is the number of rows of the character table, with the row of id 0 ("no token").
    `filters` are pairs of width in characters and count. Without `projection` the output of the
    highways is the token vector.
    """

    characters: Size
    embedding: Size
    filters: Filters
    highways: Count
    activation: Activation
    max_characters: CharacterLimit
    projection: Flag = True

    def __post_init__(self) -> None:
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


@checked_dataclass("lstm", ConfigError)
class LSTMConfig:
    """One direction of the biLM: `layers` LSTMs of `cell` units, `projection` wide at the output.

    Clips are symmetric bounds; None means no clip. Without `projected` the output is that of the
    cell (`cell` equals `projection` then) and `projection_clip` does not apply: TensorFlow's
    LSTMCell clips only projected outputs. `forget_bias` is added to the stored bias of the forget
    gate: 1 for the files of bilm-tf, 0 for files that hold the sum already.
    """

    layers: Size
    cell: Size
    projection: Size
    cell_clip: _Clip
    projection_clip: _Clip
    skip: Flag
    projected: Flag = True
    forget_bias: Number = 1.0

    def __post_init__(self) -> None:
        if not self.projected and self.cell != self.projection:
            raise ConfigError(
                f"lstm.projected is false, expected lstm.projection to equal lstm.cell "
                f"({self.cell}), found {self.projection}"
            )


@checked_dataclass("words", ConfigError)
class WordsConfig:
    """A table of word vectors: `count` rows, each `width` wide.

    With a character CNN the row of a word is concatenated before the output of the CNN. With
    `projection` a linear map takes this, or the row alone, to the token vector.
    """

    count: Rows
    width: Size
    projection: Flag


@checked_dataclass("", ConfigError)
class ElmoConfig:
    """A whole network: token encoder and biLM.

    The token encoder is a character CNN, a table of words, or both; with both, the projection of
    `words` is used. With `aligned` a matrix maps mixed vectors to a space that languages share.
    """

    char_cnn: CharCNNConfig | None
    lstm: LSTMConfig
    words: WordsConfig | None = None
    aligned: Flag = False

    def __post_init__(self) -> None:
        cnn, words, width = self.char_cnn, self.words, self.lstm.projection
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
        optional = {"char_cnn": None} if "words" in values else {}
        try:
            return validated(cls, {**optional, **values})
        except ValueError as error:
            raise ConfigError(str(error)) from None


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values by their keys joined with dots."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= {f"{key}.{inner}": each for inner, each in flat(value).items()}
        else:
            found[key] = value
    return found
