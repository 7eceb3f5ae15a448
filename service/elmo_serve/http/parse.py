"""The bodies of requests with sentences or texts, parsed in the server or in another process.

`schemas/` describes each body once, as a pydantic model. `Parsed` is one form for all of them.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson
from pydantic import BaseModel

from elmo_model.errors import shown
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, TooLarge, pointer
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import EmbedRequest, SentencesRequest, TokenizeRequest
from elmo_serve.http.schemas.language import (
    MOST_POSITIONS,
    ScoreRequest,
    SubstitutesRequest,
)
from elmo_serve.http.schemas.neighbours import NeighboursRequest
from elmo_serve.http.schemas.openai import EmbeddingsRequest
from elmo_serve.processes.arena import Bytes
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.validation import MAX_MEMBERS, refuse_wide, validated

if TYPE_CHECKING:
    from elmo_serve.http.body import Body

RequestT = TypeVar("RequestT", bound=BaseModel)

MAX_TOKEN_CHARACTERS: Final = 64
"""Longest text, in characters for each token that a sentence may have. Words have 5 on average and
48 bytes of one reach the network. A larger value lets one text keep a process busy for longer."""

MAX_TEXT_CHARACTERS: Final = 1 << 18
"""Longest text in characters, whatever its tokens. A text is split by one call of a helper, which
gets nothing else for 1.5 s then. A larger value makes texts of other clients wait for longer."""


_COUNTED: Final = {
    "sentences": "sentences",
    "text": "texts",
    "input": "sentences",
    "positions": "lists of positions",
}
"""What the items of the members of a body are called."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[RequestT]):
    """A parsed body: its sentences, and `request`, which has all other fields.

    `sentences[i]` is a text to split, or the JSON text of a list of tokens; `lengths[i]` is the
    number of its tokens, 0 for a text. A body has texts or lists of tokens, never both. They are in
    the member `member` of the body: its items, or with `is_one` its value.
    """

    request: RequestT
    sentences: list[bytes | str]
    lengths: list[int]
    member: str
    is_one: bool = False

    def pointer(self, index: int) -> str:
        """Return the JSON pointer of a sentence in the body."""
        return _pointer(self.member, index, is_one=self.is_one)


@dataclass(frozen=True, slots=True)
class _Found:
    """The sentences of a request, and where they are; see `Parsed`."""

    member: str
    items: Sequence[str | list[str]]
    is_one: bool = False


def parse(
    model: type[RequestT], body: bytes | memoryview, limits: RequestLimits
) -> Parsed[RequestT]:
    """Parse the body of a request.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to each fault.
        TooLarge: it holds more sentences, or a longer one, than `limits` allows.
    """
    content = bytes(body)
    most = MOST_POSITIONS if model is SubstitutesRequest else limits.sentences
    may_have_many = content.count(b",") >= most or content.count(b":") > MAX_MEMBERS
    request = validated(model, _counted(content, limits) if may_have_many else content)
    found = _FINDERS[model](request)
    items = found.items
    _check_lengths(found, limits)
    _check_tokens(found)
    return Parsed(
        request.model_copy(update={found.member: ()}),
        [item if isinstance(item, str) else orjson.dumps(item) for item in items],
        [0 if isinstance(item, str) else len(item) for item in items],
        found.member,
        found.is_one,
    )


def _counted(content: bytes, limits: RequestLimits) -> bytes | dict[str, Any]:
    """Return a body, as an object if it is one. Raises an error for too many items or members.

    They are counted before any of them is looked at: pydantic makes objects and faults of them,
    of 2.8 million lists in 8 MB within 2 to 5 s, and where it finds a fault within 1 to 3 s even of
    members that are no fields. It keeps those of an object that was parsed as they are.
    """
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError as error:  # also for NaN, which pydantic reads
        raise MalformedBody(f"The body is not JSON: {error}.") from None
    if not isinstance(body, dict):
        return content
    for member, unit in _COUNTED.items():
        if isinstance(items := body.get(member), list):
            limits.check_count(len(items), unit)
    if isinstance(tokens := body.get("tokens"), list) and len(tokens) > limits.sentence_tokens:
        raise limits.too_long(0, len(tokens), "/tokens")
    if isinstance(lists := body.get("positions"), list):
        count = sum(len(each) for each in lists if isinstance(each, list))
        if count > MOST_POSITIONS:
            detail = f"should have at most {MOST_POSITIONS} numbers in all, found {count}"
            raise InvalidRequest.of(FieldError("/positions", detail))
    refuse_wide(body)
    return body


def _is_text(request: SentencesRequest | NeighboursRequest, tokenised: str) -> bool:
    """Tell whether a request has `text`, and not the field `tokenised`. Raises InvalidRequest."""
    given = {name for name in type(request).model_fields if getattr(request, name) is not None}
    if given.issuperset((tokenised, "text")):  # an empty list beside the other counts as left out
        if not request.text:
            given.discard("text")
        elif not getattr(request, tokenised):
            given.discard(tokenised)
    exclusive = [name for name in ("layers", "task", "mix") if name in given]
    if len(exclusive) > 1:
        raise InvalidRequest(
            f"At most one of layers, task and mix is allowed; found {' and '.join(exclusive)}.",
            errors=[FieldError(pointer(name), "excludes the others") for name in exclusive],
        )
    is_text = "text" in given
    if is_text == (tokenised in given):
        found = "both" if is_text else "neither"
        detail = f"exactly one of `{tokenised}` and `text` is required; found {found}"
        raise InvalidRequest.of(FieldError(pointer(tokenised), detail))
    if not is_text and "tokenizer" in given:
        fault = FieldError("/tokenizer", f"splits `text`; `{tokenised}` are split already")
        raise InvalidRequest.of(fault)
    return is_text


def _of_sentences(request: SentencesRequest) -> _Found:
    if _is_text(request, "sentences"):
        return _Found("text", request.text or ())
    return _Found("sentences", request.sentences or ())


def _of_neighbours(request: NeighboursRequest) -> _Found:
    if _is_text(request, "tokens"):
        return _Found("text", [request.text or ""], is_one=True)
    if not request.tokens:
        raise InvalidRequest.of(FieldError("/tokens", "must not be empty"))
    return _Found("tokens", [request.tokens], is_one=True)


def _of_input(member: str, value: str | list[str] | list[list[str]]) -> _Found:
    return _Found(member, [value], is_one=True) if isinstance(value, str) else _Found(member, value)


_FINDERS: Final[Mapping[type[BaseModel], Callable[[Any], _Found]]] = {
    EmbedRequest: _of_sentences,
    ScoreRequest: _of_sentences,
    SubstitutesRequest: _of_sentences,
    TokenizeRequest: lambda request: _Found("text", request.text),
    EmbeddingsRequest: lambda request: _of_input("input", request.input),
    NeighboursRequest: _of_neighbours,
}


PARSED_BODIES: Final = tuple(_FINDERS)
"""Every kind of body that `parse` can parse."""


def _check_lengths(found: _Found, limits: RequestLimits) -> None:
    """Raise TooLarge for too many tokens or too long a text."""
    items = found.items
    longest = min(MAX_TOKEN_CHARACTERS * limits.sentence_tokens, MAX_TEXT_CHARACTERS)
    for index, item in enumerate(items):
        if isinstance(item, str):
            if len(item) <= longest:
                continue
            detail = (
                f"Text {index} has {len(item)} characters and at most {longest} are allowed: "
                f"{MAX_TOKEN_CHARACTERS} for each token of a sentence (ELMO_MAX_SENTENCE_TOKENS), "
                f"and {MAX_TEXT_CHARACTERS} in any case."
            )
        elif len(item) > limits.sentence_tokens:
            place = _pointer(found.member, index, is_one=found.is_one)
            raise limits.too_long(index, len(item), place)
        else:
            continue
        place = _pointer(found.member, index, is_one=found.is_one)
        raise TooLarge(detail, errors=[FieldError(place, detail)])


def _check_tokens(found: _Found) -> None:
    """Raise InvalidRequest for a sentence that is one token of three or more words.

    It was sent without being split. Tokens of treebanks have white space as well: two words, or
    a number in groups, such as "10 000 000".
    """
    for index, item in enumerate(found.items):
        if isinstance(item, str) or len(item) != 1:
            continue
        words = item[0].split()
        if len(words) > 2 and not all(map(str.isdecimal, words)):
            place = _pointer(found.member, index, is_one=found.is_one)
            text = "a string" if found.member == "input" else "`text`"
            detail = f"is a token of {len(words)} words, send it as {text}; found {shown(item[0])}"
            raise InvalidRequest.of(FieldError(f"{place}/0", detail))


def _pointer(member: str, index: int, *, is_one: bool) -> str:
    return pointer(member) if is_one else pointer(member, index)


async def parse_elsewhere(
    pool: HelperPool, client: str, model: type[RequestT], body: "Body", limits: RequestLimits
) -> Parsed[RequestT]:
    """Return `parse` of a body in a process of `pool`, and free the pieces of the body.

    Raises the ServiceError of `parse`; HelperError and Unavailable as `HelperPool.run`.
    """
    block = pool.arena.acquire(body.size)
    body.move_to(block.array)
    parsed: Parsed[RequestT] = await pool.run(
        _parsed, block, body.size, model, limits, client=client, is_slow=True
    )
    return parsed


def _parsed(
    memory: Bytes, size: int, model: type[RequestT], limits: RequestLimits
) -> Parsed[RequestT]:
    """Parse the first `size` bytes of `memory`."""
    gc.disable()  # it looked at millions of new objects again and again, none of them in a cycle
    try:
        return parse(model, memory.data[:size], limits)
    finally:
        gc.enable()
