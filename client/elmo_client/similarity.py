"""Pairs to compare, as POST /similarity takes them, and the cosines that it returns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_client.errors import BadAnswer, CannotSend
from elmo_client.sentences import check_sentence

Side = str | Sequence[str] | tuple[str | Sequence[str], int | None]
"""A text, a list of tokens, or one of the two with the number of a token in it."""

Cosines = dict[str, NDArray[np.float64]]
"""The cosine of each pair by layer: "0", "1", ... and "average" for the mean of the layers."""


def body_of(
    pairs: Iterable[tuple[Side, Side]], tokenizer: str | None, centred: bool, model: str | None
) -> bytes:
    """Return the body of POST /similarity. Raises CannotSend for a pair of another form."""
    members: dict[str, Any] = {"pairs": [_pair(number, pair) for number, pair in enumerate(pairs)]}
    if tokenizer is not None:
        members["tokenizer"] = tokenizer
    if centred:
        members["centred"] = True
    if model is not None:
        members["model"] = model
    try:
        return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"pairs cannot be written as JSON: {error}") from error


def cosines_of(found: Mapping[str, Any], count: int) -> Cosines:
    """Return the cosines of `count` pairs. Raises BadAnswer for another response."""
    try:
        cosines = {name: np.array(each, np.float64) for name, each in found["cosine"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadAnswer(f"the server sent no cosines: {error}") from error
    if any(each.shape != (count,) for each in cosines.values()):
        raise BadAnswer(f"the server sent other cosines than one for each of {count} pairs")
    return cosines


def _pair(number: int, pair: object) -> list[dict[str, Any]]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise CannotSend(f"pair {number} is {pair!r:.60}; expected two texts or lists of tokens")
    return [_side(number, side) for side in pair]


def _side(number: int, side: Any) -> dict[str, Any]:
    if isinstance(side, Mapping):
        return dict(side)
    token = None
    if isinstance(side, tuple) and len(side) == 2 and not isinstance(side[1], str):
        side, token = side
    if isinstance(side, str):
        return {"text": side, "token": token}
    check_sentence(side, number)
    return {"tokens": list(side), "token": token}
