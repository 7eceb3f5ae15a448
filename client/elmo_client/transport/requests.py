"""What the clients send: checks of sentences and texts, and the bodies of requests.

A mistake that newcomers make raises CannotSend, which says what to do.
"""

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from numbers import Real
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import orjson

from elmo_client.errors import CannotSend, shown
from elmo_client.selection import given, listed, mix_of

Side = str | Sequence[str] | tuple[str | Sequence[str], int | None]
"""A text, a list of tokens, or one of the two with the number of a token in it."""

Layer = Literal["top", "average"] | int
"""The layer that is compared, by its name or number."""

_SIDE = "a text, a list of tokens, or one of the two in a tuple with the number of a token"

_SPLIT = "for text, use embed_text, or text.split() where spaces stand between its tokens"


def json_bytes(value: object, name: str) -> bytes:
    """Return a value as JSON. Raises CannotSend, with its name, for what is no JSON."""
    try:
        return orjson.dumps(value, _listed, orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"{name} cannot be written as JSON: {error}") from error


def _listed(value: object) -> object:
    """Return an array of strings as a list; orjson writes arrays of numbers itself."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError


def check_several(items: object, name: str, expected: str) -> None:
    """Raise CannotSend, with `name`, for anything other than several items.

    The items of a string are its characters, those of a mapping or a table the names of its parts.
    """
    is_table = isinstance(items, Mapping) or hasattr(items, "columns")
    several = isinstance(items, Iterable | AsyncIterable) and not isinstance(items, str | bytes)
    if is_table or not several:
        found = f"a {type(items).__name__}" if is_table else shown(items)
        raise CannotSend(f"{name} is {found}; expected {expected}")


def check_sentences(sentences: object) -> None:
    """Raise CannotSend for anything other than several sentences."""
    check_several(
        sentences, "sentences", f"an iterable of sentences, each a list of tokens: {_SPLIT}"
    )


def check_sentence(
    sentence: Sequence[str], name: str = "sentence", expected: str = "a list of tokens"
) -> None:
    """Raise CannotSend, with `name`, for anything but a list (or tuple, or array) of strings.

    A set has no order, and the items of a mapping are the names of its parts.
    """
    if isinstance(sentence, str | bytes):
        raise CannotSend(f"{name} is the string {shown(sentence)}; expected its tokens: {_SPLIT}")
    # An iterator, which has no length, would be empty after this check.
    is_list = isinstance(sentence, Iterable) and isinstance(sentence, Sized)
    if not is_list or isinstance(sentence, Set | Mapping):
        raise CannotSend(f"{name} is {shown(sentence)}, not {expected}")
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            raise CannotSend(f"token {place} of {name} is {shown(token)}, not a string")


def check_text(text: object, name: str, hint: str = "for tokens, use embed") -> str:
    """Return `text`, which must be a string. Raises CannotSend, with `hint` for a list."""
    if isinstance(text, str):
        return text
    advice = f"; {hint}" if isinstance(text, list | tuple) else ""
    raise CannotSend(f"{name} is {shown(text)}; expected a string{advice}")


def check_texts(texts: object) -> None:
    """Raise CannotSend for anything other than several texts."""
    check_several(texts, "texts", "a list of strings, such as one column of a table")


def lines_of(file: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an open file or a list. Raises CannotSend for a path, and for bytes."""
    check_several(file, "input_file", "an open file, such as open(path), or a list of lines")
    return (check_text(line, f"line {number}") for number, line in enumerate(file, 1))


def path_of(
    route: str,
    name: str,
    called: str = "the name of the task",
    rule: str = "1 to 64 of A-Z a-z 0-9 . _ - and a letter or a digit first",
) -> str:
    """Return the path of a task or a job of a name. The server refuses other wrong names.

    Raises CannotSend for no string, and for a name whose path would be that of another route.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise CannotSend(f"{called} is {shown(name)}; expected {rule}")
    return f"{route}/{quote(name, safe='')}"


def similarity_body(
    pairs: Iterable[tuple[Side, Side]], tokenizer: str | None, centred: bool
) -> dict[str, Any]:
    """Return the members of POST /similarity. Raises CannotSend for a pair of another form."""
    every = [_pair(number, pair) for number, pair in enumerate(pairs)]
    return given({"pairs": every, "tokenizer": tokenizer, "centred": centred or None})


def _pair(number: int, pair: object) -> list[dict[str, Any]]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise CannotSend(f"pair {number} is {shown(pair)}; expected two texts or lists of tokens")
    return [_side(f"side {place} of pair {number}", side) for place, side in enumerate(pair)]


def _side(name: str, side: Any) -> dict[str, Any]:
    if isinstance(side, Mapping):
        return dict(side)
    sentence, token = side, None
    if isinstance(side, tuple) and len(side) == 2:
        first, second = side
        if not isinstance(second, str):
            sentence, token = side
        elif not isinstance(first, str) or len(first.split()) > 1:  # a word, not its number
            raise CannotSend(f"{name} is {shown(side)}; expected (text, number of the token)")
    if isinstance(sentence, str):
        return {"text": sentence, "token": token}
    if not hasattr(sentence, "__iter__"):
        raise CannotSend(f"{name} is {shown(side)}; expected {_SIDE}")
    check_sentence(sentence, name)
    return {"tokens": list(sentence), "token": token}


def neighbours_body(
    sentence: str | Sequence[str],
    token: int,
    **options: Any,
) -> dict[str, Any]:
    """Return the members of POST /neighbours. Raises CannotSend for arguments of another form."""
    if not isinstance(sentence, str):
        check_sentence(sentence, "sentence 0")
    member = {"text": sentence} if isinstance(sentence, str) else {"tokens": list(sentence)}
    members = {**member, "token": token, "k": 10, **given(options)}
    if "mix" in members:
        members["mix"] = mix_of(members["mix"])
    return members


def substitutes_body(
    sentence: str | Sequence[str],
    positions: Sequence[int],
    **options: Any,
) -> dict[str, Any]:
    """Return the members of POST /substitutes. Raises CannotSend for another form."""
    if not isinstance(sentence, str):
        check_sentence(sentence)
    member = {"text": [sentence]} if isinstance(sentence, str) else {"sentences": [list(sentence)]}
    expected = "a list of the numbers of tokens, such as [1, 4]"
    places = listed("positions", positions, expected)
    if not all(isinstance(each, Real) for each in places):
        raise CannotSend(f"positions is {shown(positions)}; expected {expected}")
    return {**member, "positions": [places], **given(options)}


def scored_kind(sentences: Iterable[str] | Iterable[Sequence[str]]) -> tuple[list[Any], bool]:
    """Return sentences as a list, and whether all are texts. Raises CannotSend for a mixture."""
    check_several(sentences, "sentences", "a list of texts, or of lists of tokens")
    every = list(sentences)
    are_texts = bool(every) and isinstance(every[0], str)
    for number, sentence in enumerate(every):
        if isinstance(sentence, str) != are_texts:
            expected = f"a {'text' if are_texts else 'list of tokens'}, as sentence 0 is"
            raise CannotSend(f"sentence {number} is {shown(sentence)}; expected {expected}")
    return every, are_texts
