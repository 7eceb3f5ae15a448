"""The body of a request: received within its client's budget, parsed here or in another process.

`schemas/` describes each body with sentences or texts once, as a pydantic model. `Parsed` is one
form for all of them.
"""

import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_model.errors import shown
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, TooLarge
from elmo_serve.http import headers
from elmo_serve.http.deadline import DisconnectError
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import InputRequest, Items, Member
from elmo_serve.processes.arena import Bytes
from elmo_serve.processes.helpers import HelperPool
from elmo_serve.scheduling.budgets import Budget
from elmo_serve.validation import MAX_MEMBERS, refuse_wide, validated

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from elmo_model.text.tokenizers import Tokenized

RequestT = TypeVar("RequestT", bound=InputRequest)

SMALL_BODY_BYTES: Final = 1 << 15
"""Bodies up to this size, in bytes, are parsed in the server process, usual ones within 0.6 ms of
the event loop; another process takes 0.3 ms of it, and 1 to 3 ms in all. A larger value blocks the
event loop longer: a body made for it, of 64 KiB, for 4 ms. The budget of all bodies does not count
them: 1,024 connections hold 32 MiB of them."""

MAX_TOKEN_CHARACTERS: Final = 64
"""Longest text, in characters for each token that a sentence may have. Words have 5 on average and
48 bytes of one reach the network. A larger value lets one text keep a process busy for longer."""

MAX_TEXT_CHARACTERS: Final = 1 << 18
"""Longest text in characters, whatever its tokens. A text is split by one call of a helper, which
gets nothing else for 1.5 s then. A larger value makes texts of other clients wait for longer."""


class Body:
    """The pieces of one request body, of at most `max_bytes`.

    A body over `SMALL_BODY_BYTES` counts with the bytes that have come, until `release`. The pieces
    stay apart, on the heap: a body that never ends holds no file descriptor.
    """

    def __init__(self, scope: "Scope", budget: Budget, max_bytes: int) -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._hold = budget.hold(headers.client(scope))
        self._announced = headers.content_length(scope) or 0

    def release(self) -> None:
        """Give the budget back, and free the pieces."""
        self._hold.release()
        self._pieces.clear()

    async def receive(self, receive: "Receive") -> None:
        """Read the body to its end.

        Raises:
            DisconnectError: the client left before the end.
            TooLarge: the body has more than `max_bytes`.
            Overloaded, ClientOverShare: it does not fit beside the other bodies.
        """
        self._check_size(self._announced)
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError
            piece: bytes = message.get("body", b"")
            self.size += len(piece)
            self._check_size(self.size)
            if self.size > SMALL_BODY_BYTES:
                self._hold.add(self.size - self._hold.left)
            self._pieces.append(piece)
            more = message.get("more_body", False)

    def take(self) -> bytes:
        """Return the whole body, copied together, and free its pieces."""
        whole = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return whole

    def move_to(self, memory: NDArray[np.uint8]) -> None:
        """Write the body to the start of `memory` and free its pieces."""
        start = 0
        for piece in self._pieces:
            memory[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
        self._pieces.clear()

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self._max_bytes} are allowed "
                f"(ELMO_MAX_BODY_BYTES)."
            )


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """The tokens of some sentences, in their order.

    `sentences` are the JSON texts of lists of tokens, as `Engine.embed` takes them; `lengths` their
    numbers of tokens. `offsets` are the JSON texts of lists of [start, end], in code points,
    of sentences that were texts.
    """

    sentences: list[bytes] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    offsets: list[bytes] = field(default_factory=list)

    def add(self, found: "Tokenized") -> None:
        """Append one text."""
        self.sentences.append(orjson.dumps(found.tokens))
        self.lengths.append(len(found.tokens))
        self.offsets.append(orjson.dumps(found.offsets))

    def extend(self, others: "TokenizedTexts") -> None:
        """Append later texts."""
        self.sentences.extend(others.sentences)
        self.lengths.extend(others.lengths)
        self.offsets.extend(others.offsets)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[RequestT]):
    """A parsed body: its sentences, and `request`, which has all other fields.

    The sentences are in `member` of the body: `texts` to split, or lists of `tokens`, never both.
    """

    request: RequestT
    member: Member
    texts: list[str]
    tokens: TokenizedTexts


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
    most = min(limits.sentences, model.most_uncounted)
    may_have_many = content.count(b",") >= most or content.count(b":") > MAX_MEMBERS
    request = validated(model, _counted(model, content, limits) if may_have_many else content)
    member, items = request.input_items()
    _check_lengths(member, items, limits)
    _check_tokens(member, items)
    lists = [item for item in items if not isinstance(item, str)]
    return Parsed(
        request.model_copy(update={member.name: ()}),
        member,
        [item for item in items if isinstance(item, str)],
        TokenizedTexts(list(map(orjson.dumps, lists)), list(map(len, lists))),
    )


def _counted(
    model: type[InputRequest], content: bytes, limits: RequestLimits
) -> bytes | dict[str, Any]:
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
    model.check_counts(body, limits)
    refuse_wide(body)
    return body


def _check_lengths(member: Member, items: Items, limits: RequestLimits) -> None:
    """Raise TooLarge for too many tokens or too long a text."""
    longest = min(MAX_TOKEN_CHARACTERS * limits.sentence_tokens, MAX_TEXT_CHARACTERS)
    for index, item in enumerate(items):
        if isinstance(item, str):
            if len(item) > longest:
                raise _too_long(index, len(item), longest, member.pointer(index))
        elif len(item) > limits.sentence_tokens:
            raise limits.too_long(index, len(item), member.pointer(index))


def _too_long(index: int, found: int, allowed: int, place: str) -> TooLarge:
    detail = (
        f"Text {index} has {found} characters and at most {allowed} are allowed: "
        f"{MAX_TOKEN_CHARACTERS} for each token of a sentence (ELMO_MAX_SENTENCE_TOKENS), "
        f"and {MAX_TEXT_CHARACTERS} in any case."
    )
    return TooLarge(detail, errors=[FieldError(place, detail)])


def _check_tokens(member: Member, items: Items) -> None:
    """Raise InvalidRequest for a sentence that is one token of three or more words.

    It was sent without being split. Tokens of treebanks have white space as well: two words, or
    a number in groups, such as "10 000 000".
    """
    for index, item in enumerate(items):
        if isinstance(item, str) or len(item) != 1:
            continue
        words = item[0].split()
        if len(words) > 2 and not all(map(str.isdecimal, words)):
            place = member.pointer(index)
            text = "a string" if member.name == "input" else "`text`"
            detail = f"is a token of {len(words)} words, send it as {text}; found {shown(item[0])}"
            raise InvalidRequest.of(FieldError(f"{place}/0", detail))


async def parse_elsewhere(
    pool: HelperPool, client: str, model: type[RequestT], body: Body, limits: RequestLimits
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
