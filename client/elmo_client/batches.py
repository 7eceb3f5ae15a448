"""What the clients send: checks of sentences and texts, and their requests.

A sentence or text that would silently give other vectors than its user expects raises CannotSend.
"""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Set,
    Sized,
)
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import orjson

from elmo_client.errors import CannotSend, shown
from elmo_client.selection import Selection

BOUNDARIES = 2
"""Tokens that the server counts for each sentence in addition to its own: begin and end marker."""

_SPLIT = "for text, use Client.embed_text, or text.split() where spaces stand between its tokens"

# Server batches per request. With two, the server's queue is never empty between two requests of
# one client; more would only add latency. Measured with benchmarks/over_http.py.
_BATCHES_PER_REQUEST = 2

# Bytes of one response. Raising it raises the memory of the client, which holds `in_flight`
# responses at once.
_RESPONSE_BYTES = 32 * 1024**2

# Characters of a text for each word, with its space. A smaller value means more requests.
_CHARACTERS_PER_WORD = 3


def json_bytes(value: object, name: str) -> bytes:
    """Return a value as JSON. Raises CannotSend, with its name, for what is no JSON."""
    try:
        return orjson.dumps(value, _listed, orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise CannotSend(f"{name} cannot be written as JSON: {error}") from error


def _listed(value: object) -> object:
    """Return an array of strings or a range as a list; orjson writes other sequences itself."""
    if isinstance(value, np.ndarray | range):
        return list(value)
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


def check_sentence(sentence: Any, name: str, expected: str = "a list of tokens") -> None:
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


def check_text(text: object, name: str) -> str:
    """Return `text`. Raises CannotSend for anything but a string."""
    if not isinstance(text, str):
        raise CannotSend(f"{name} is {shown(text)}; expected a string")
    return text


def check_texts(texts: object) -> None:
    """Raise CannotSend for anything other than several texts."""
    check_several(texts, "texts", "a list of strings, such as one column of a table")


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """One POST /embed: its JSON body, the number of its first sentence and their count.

    `texts` are the texts of a request that has text.
    """

    first: int
    count: int
    body: bytes
    texts: tuple[str, ...] = ()


class RequestBatches:
    """Collects sentences, lists of tokens, until the next one no longer fits into the request.

    A request is bounded by the limits of `/info`, and so that `in_flight` requests fit into the
    server's queue and into the memory of this process.
    """

    _member: ClassVar = "sentences"

    def __init__(self, info: Mapping[str, Any], selection: Selection, in_flight: int) -> None:
        """Read the limits from the response of GET /info."""
        limits: Mapping[str, int] = info["limits"]
        queue = limits["max_queue_tokens"]
        self._limits = limits
        self._most_tokens = min(
            _BATCHES_PER_REQUEST * limits["max_batch_tokens"], queue // in_flight
        )
        self._most_bytes = min(_RESPONSE_BYTES, limits["max_answer_bytes"] // in_flight)
        self._selection = selection
        self._dimension = int(info["dimension"])
        self._layers = int(info["layers"])
        self._head = json_bytes({**selection.members, self._member: []}, "the options")[
            : -len(b"]}")
        ]
        self._next = 0
        self._clear()

    def cut(self, sentences: Iterable[Any]) -> Iterator[EmbedRequest]:
        """Yield the requests for all `sentences`, in order."""
        for sentence in sentences:
            if (request := self.add(sentence)) is not None:
                yield request
        if (request := self.rest()) is not None:
            yield request

    async def cut_any(
        self, sentences: Iterable[Any] | AsyncIterable[Any]
    ) -> AsyncIterator[EmbedRequest]:
        """Yield the requests for all `sentences`, which may come asynchronously."""
        if not isinstance(sentences, AsyncIterable):
            for request in self.cut(sentences):
                yield request
            return
        async for sentence in sentences:
            if (finished := self.add(sentence)) is not None:
                yield finished
        if (finished := self.rest()) is not None:
            yield finished

    def add(self, sentence: Any) -> EmbedRequest | None:
        """Add a sentence; return the finished request if the sentence did not fit into it.

        Raises CannotSend for a value that is no list of tokens, and for a sentence whose request
        is larger than a body may be: the server would close the connection on it.
        """
        number = self._next
        text, tokens = self._measured(sentence, number)
        response = self._selection.response_bytes(tokens, self._dimension, self._layers)
        self._check_body(number, len(text))
        finished = None if self._fits(tokens, response, len(text)) else self.rest()
        self._texts.append(text)
        if isinstance(sentence, str):
            self._originals.append(sentence)
        self._tokens += tokens + BOUNDARIES
        self._response += response
        self._body += len(text) + 1
        self._next += 1
        return finished

    def _measured(self, sentence: Any, number: int) -> tuple[bytes, int]:
        """Return the JSON text of a sentence and its number of tokens."""
        name = f"sentence {number}"
        check_sentence(sentence, name)
        return json_bytes(list(sentence), name), len(sentence)

    def rest(self) -> EmbedRequest | None:
        """Return a request with the sentences that are left; None if there are none."""
        if not self._texts:
            return None
        body = self._head + b",".join(self._texts) + b"]}"
        request = EmbedRequest(self._first, len(self._texts), body, tuple(self._originals))
        self._clear()
        return request

    def _clear(self) -> None:
        self._texts: list[bytes] = []
        self._originals: list[str] = []
        self._first = self._next
        self._tokens = self._response = 0
        # Each sentence counts with a comma before it; the first has none.
        self._body = len(self._head) + len(b"]}") - 1

    def _fits(self, tokens: int, response: int, text: int) -> bool:
        return not self._texts or (
            len(self._texts) < self._limits["max_request_sentences"]
            and self._tokens + tokens + BOUNDARIES <= self._most_tokens
            and self._response + response <= self._most_bytes
            and self._body + text + 1 <= self._limits["max_body_bytes"]
        )

    def _check_body(self, number: int, text: int) -> None:
        body, most = len(self._head) + text + len(b"]}"), self._limits["max_body_bytes"]
        if body > most:
            raise CannotSend(
                f"sentence {number} makes a request of {body:,} bytes; the server allows {most:,}"
            )


class TextBatches(RequestBatches):
    """Likewise for texts, whose tokens are estimated."""

    _member: ClassVar = "text"

    def __init__(self, info: Mapping[str, Any], selection: Selection, in_flight: int) -> None:
        super().__init__(info, selection, in_flight)
        name = selection.members.get("tokenizer") or info.get("tokenizer")
        self._token_characters = 1 if name == "characters" else _CHARACTERS_PER_WORD

    def _measured(self, sentence: Any, number: int) -> tuple[bytes, int]:
        name = f"text {number}"
        text = check_text(sentence, name)
        tokens = min(len(text) // self._token_characters + 1, self._limits["max_sentence_tokens"])
        return json_bytes(text, name), tokens
