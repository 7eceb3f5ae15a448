"""How any number of sentences becomes requests that one server takes, and when to send one again.

Plain functions and values: `service.client` sends what is decided here, from threads or coroutines.
"""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from service.batching.job import BOUNDARIES
from service.client_errors import BadAnswer, CannotSend, ModelChanged, Unreachable, refusal
from service.encodings import safetensors
from service.workers.protocol import Dtype, Output, Pooling

Layers = Literal["all", "top", "average"] | Sequence[int]
Vectors = NDArray[Any]

_BATCHES = 2  # of the server's, a request: enough that its queue is not empty between two
_MOST_BYTES = 32 * 1024**2  # of one answer: what is in flight is held in memory
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_LATER = (429, 503)
# The connection was lost or never made: nobody knows whether the request was seen.
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError)
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Options(TypedDict, total=False):
    """What `embed` and `stream` take beside the sentences; at most one of the first three."""

    layers: Layers | None
    task: str | None
    mix: Mapping[str, Any] | Sequence[float] | None
    pooling: Pooling
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for every sentence, as the members of the request and as what it weighs."""

    members: Mapping[str, Any]
    output: Output

    @classmethod
    def of(cls, options: Options, info: Mapping[str, Any]) -> Wanted:
        """Read the options of `embed`. Raises CannotSend for more than one of the first three."""
        layers, task, mix = options.get("layers"), options.get("task"), options.get("mix")
        pooling, dtype = options.get("pooling", "none"), options.get("dtype", "float32")
        given = {"layers": layers, "task": task, "mix": mix}
        members = {name: value for name, value in given.items() if value is not None}
        if len(members) > 1:
            raise CannotSend(f"{' and '.join(members)} are given; at most one of them can be")
        if layers is not None and not isinstance(layers, str):
            members["layers"] = list(layers)
        if mix is not None:
            members["mix"] = dict(mix) if isinstance(mix, Mapping) else {"weights": list(mix)}
        numbers = _numbers(layers, int(info["layers"])) if task is None and mix is None else None
        output = Output(layers=numbers, stacked=numbers is not None, pooling=pooling, dtype=dtype)
        return cls({**members, "pooling": pooling, "dtype": dtype}, output)


def _numbers(layers: Layers | None, count: int) -> tuple[int, ...] | None:
    """Return the layers of a stacked answer; None for a vector a token."""
    if layers is None or layers == "all":
        return tuple(range(count))
    return None if isinstance(layers, str) else tuple(layers)


@dataclass(frozen=True, slots=True)
class Piece:
    """One request: `count` sentences from number `first` on, and its body."""

    first: int
    count: int
    body: bytes


@dataclass(slots=True)
class Cutter:
    """Cuts a stream of sentences into requests within the limits that `/info` names.

    A request is never larger than serves: it is also bounded by what keeps the server busy and
    this process small.
    """

    limits: Mapping[str, int]
    dimension: int
    wanted: Wanted
    in_flight: int
    _head: bytes = b""
    _texts: list[bytes] = field(default_factory=list)
    _first: int = 0
    _next: int = 0
    _tokens: int = 0
    _answer: int = 0
    _body: int = 0

    def __post_init__(self) -> None:
        self._head = orjson.dumps(dict(self.wanted.members))[:-1] + b',"sentences":['
        self._clear()

    def add(self, sentence: Sequence[str]) -> Piece | None:
        """Take one more sentence; return the request that it no longer fits into, if any.

        Raises CannotSend for what this server would refuse by itself.
        """
        number = self._next
        text = _text(sentence, number)
        tokens = len(sentence)
        answer = self.wanted.output.size(tokens, self.dimension)
        self._check(number, tokens, answer, len(text))
        piece = None
        if self._texts and not self._fits(tokens, answer, len(text)):
            piece = self.rest()
        self._texts.append(text)
        self._tokens += tokens + BOUNDARIES
        self._answer += answer
        self._body += len(text) + 1
        self._next += 1
        return piece

    def rest(self) -> Piece | None:
        """Return a request of what has come so far."""
        if not self._texts:
            return None
        body = self._head + b",".join(self._texts) + b"]}"
        piece = Piece(self._first, len(self._texts), body)
        self._clear()
        return piece

    def _clear(self) -> None:
        self._texts = []
        self._first = self._next
        self._tokens = self._answer = 0
        self._body = len(self._head) + 2

    def _fits(self, tokens: int, answer: int, text: int) -> bool:
        limits = self.limits
        # All that is in flight should find room in the queue beside one another.
        most_tokens = min(
            _BATCHES * limits["max_batch_tokens"], limits["max_queue_tokens"] // self.in_flight
        )
        most_bytes = min(_MOST_BYTES, limits["max_answer_bytes"] // self.in_flight)
        return (
            len(self._texts) < limits["max_request_sentences"]
            and self._tokens + tokens + BOUNDARIES <= most_tokens
            and self._answer + answer <= most_bytes
            and self._body + text + 1 <= limits["max_body_bytes"]
        )

    def _check(self, number: int, tokens: int, answer: int, text: int) -> None:
        body = len(self._head) + text + 2
        for what, found, key, unit in (
            ("holds", tokens, "max_sentence_tokens", "tokens"),
            ("makes a request of", body, "max_body_bytes", "bytes"),
            ("makes an answer of", answer, "max_answer_bytes", "bytes"),
        ):
            if found > self.limits[key]:
                raise CannotSend(
                    f"sentence {number} {what} {found:,} {unit} and the server allows "
                    f"{self.limits[key]:,} (ELMO_{key.upper()})"
                )


def _text(sentence: Sequence[str], number: int) -> bytes:
    if isinstance(sentence, str | bytes):
        raise CannotSend(f"sentence {number} is a string; a sentence is a list of its tokens")
    for place, token in enumerate(sentence):
        if not isinstance(token, str):
            raise CannotSend(f"token {place} of sentence {number} is {token!r:.60}, not a string")
    try:
        return orjson.dumps(list(sentence))
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"sentence {number} has no UTF-8, which JSON is: {error}") from error


def pieces(cutter: Cutter, sentences: Iterable[Sequence[str]]) -> Iterator[Piece]:
    """Cut sentences as they come."""
    for sentence in sentences:
        if (piece := cutter.add(sentence)) is not None:
            yield piece
    if (piece := cutter.rest()) is not None:
        yield piece


async def pieces_as_they_come(
    cutter: Cutter, sentences: AsyncIterator[Sequence[str]]
) -> AsyncIterator[Piece]:
    """Cut sentences that are awaited."""
    async for sentence in sentences:
        if (piece := cutter.add(sentence)) is not None:
            yield piece
    if (piece := cutter.rest()) is not None:
        yield piece


@dataclass(frozen=True, slots=True)
class Call:
    """A request to send; `repeatable` when nothing is lost if the server gets it twice."""

    method: str
    path: str
    content: bytes | None = None
    accept: str = "application/json"
    repeatable: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """What the request says beside what every request says."""
        sent = {} if self.content is None else {"Content-Type": "application/json"}
        return {"Accept": self.accept, **sent}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long before the next attempt."""

    seconds: float


Outcome = httpx.Response | httpx.HTTPError | None


def exchange(
    call: Call, patience_seconds: float, first: int = 0
) -> Generator[Call | Pause, Outcome, httpx.Response]:
    """Ask for the call to be sent, and again where that may help; return the 2xx answer.

    A generator that does nothing itself: it yields what is to be done and is sent what came of it.
    Raises what `service.client_errors` has.
    """
    failures, failing_since = 0, 0.0
    while True:
        outcome = yield call
        assert outcome is not None, "a call has an outcome"
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return outcome
        pause = _pause(call, outcome, failures)
        failures += 1
        # Patience begins with the first failure: the answer itself may have taken longer.
        failing_since = failing_since or time.monotonic()
        spent = time.monotonic() - failing_since
        if pause is None or spent + pause > patience_seconds:
            raise _error(outcome, failures, spent, first)
        yield Pause(pause)


def _pause(call: Call, outcome: httpx.Response | httpx.HTTPError, failures: int) -> float | None:
    """Return the seconds before the next attempt; None where none should follow."""
    backed_off = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 16), _LONGEST_PAUSE_SECONDS)
    # Many that were refused at once should not all come back at once.
    backed_off *= random.uniform(0.5, 1.0)
    if isinstance(outcome, httpx.Response):
        if outcome.status_code not in _LATER:
            return None
        named = _retry_after(outcome.headers.get("retry-after", ""))
        return backed_off if named is None else named + random.uniform(0, 0.1 * named)
    may_repeat = _NEVER_SENT if not call.repeatable else (*_NEVER_SENT, *_LOST)
    return backed_off if isinstance(outcome, may_repeat) else None


def _retry_after(value: str) -> float | None:
    """Return the seconds of a Retry-After, which is a number or a date (RFC 9110, 10.2.3)."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def _error(
    outcome: httpx.Response | httpx.HTTPError, attempts: int, seconds: float, first: int
) -> Exception:
    if isinstance(outcome, httpx.Response):
        return refusal(outcome.status_code, outcome.content, outcome.headers, first)
    tried = f" ({attempts} attempts in {seconds:.1f} s)" if attempts > 1 else ""
    why = str(outcome) or type(outcome).__name__
    if isinstance(outcome, httpx.TimeoutException):
        why = f"no answer in time: {type(outcome).__name__}"
    error = Unreachable(f"{why}{tried}")
    error.__cause__ = outcome
    return error


def vectors_of(response: httpx.Response, piece: Piece, revision: str) -> list[Vectors]:
    """Return the arrays of an answer to POST /embed.

    Raises ModelChanged where another model than that of `revision` made them, BadAnswer for what is
    no such answer.
    """
    found = response.headers.get("content-type", "")
    if found != safetensors.ENCODING.media_type:
        raise BadAnswer(f"the answer is {found or 'of no media type'}, not safetensors")
    body = response.content
    try:
        header = orjson.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        made_by = header["__metadata__"]["revision"]
        arrays = safetensors.decode(body)
    except Exception as error:  # the library's own errors share no root
        raise BadAnswer(f"the answer is no safetensors: {error}") from error
    if made_by != revision:
        raise ModelChanged(f"the server's model changed from {revision} to {made_by}")
    if len(arrays) != piece.count:
        raise BadAnswer(f"{len(arrays)} arrays came for {piece.count} sentences")
    return [array if array.flags.writeable else np.array(array) for array in arrays]


def json_of(response: httpx.Response) -> Any:
    """Return the JSON of an answer; raises BadAnswer where there is none."""
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"the answer is no JSON: {error}") from error
