"""A token whose nearest uses are wanted, as POST /neighbours takes it, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from elmo_client.errors import BadAnswer, CannotSend
from elmo_client.selection import Mix, mix_of
from elmo_client.sentences import check_sentence

Layer = Literal["top", "average"] | int
"""The layer that is compared, by its name or number."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A use of a word: token number `token` of a sentence of the indexed text."""

    sentence: tuple[str, ...]
    token: int
    cosine: float

    @property
    def word(self) -> str:
        """The token itself."""
        return self.sentence[self.token]


@dataclass(frozen=True, slots=True)
class StaticNeighbour:
    """A word that is near without a sentence."""

    word: str
    cosine: float


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The uses nearest to a token of a sentence, and the words nearest to it without a sentence.

    `tokens` are those of the sentence that was sent. Both lists begin with the nearest.
    """

    tokens: tuple[str, ...]
    token: int
    neighbours: tuple[Neighbour, ...]
    static: tuple[StaticNeighbour, ...]


def body_of(
    sentence: str | Sequence[str],
    token: int,
    *,
    layers: Layer | None,
    task: str | None,
    mix: Mix | None,
    k: int | None,
    tokenizer: str | None,
    model: str | None,
) -> bytes:
    """Return the body of POST /neighbours. Raises CannotSend for arguments of another form."""
    if not isinstance(sentence, str):
        check_sentence(sentence, 0)
    members: dict[str, Any] = {
        **({"text": sentence} if isinstance(sentence, str) else {"tokens": list(sentence)}),
        "token": token,
        "layers": layers,
        "task": task,
        "mix": None if mix is None else mix_of(mix),
        "k": k,
        "tokenizer": tokenizer,
        "model": model,
    }
    given = {name: value for name, value in members.items() if value is not None}
    try:
        return orjson.dumps(given, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"the request cannot be written as JSON: {error}") from error


def neighbours_of(found: Mapping[str, Any]) -> Neighbours:
    """Return the neighbours of a response. Raises BadAnswer for another response."""
    try:
        return Neighbours(
            tuple(found["tokens"]),
            found["token"],
            tuple(
                Neighbour(tuple(each["sentence"]), each["token"], each["cosine"])
                for each in found["neighbours"]
            ),
            tuple(StaticNeighbour(each["word"], each["cosine"]) for each in found["static"]),
        )
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"the server sent no neighbours: {error!r}") from error
