"""How any number of sentences becomes requests that one server takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import orjson

from elmo_client.errors import CannotSend
from elmo_serve.output import BOUNDARIES, Dtype, Output, Pooling

Layers = Literal["all", "top", "average"] | Sequence[int]

_BATCHES = 2  # of the server's, a request: enough that its queue is not empty between two
_MOST_BYTES = 32 * 1024**2  # of one answer: what is in flight is held in memory


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
        queue = min(
            limits["max_queue_tokens"],
            limits.get("max_client_tokens") or limits["max_queue_tokens"],
        )
        most_tokens = min(_BATCHES * limits["max_batch_tokens"], queue // self.in_flight)
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
