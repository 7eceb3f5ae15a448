"""Groups a stream of sentences into requests that the server's limits allow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from elmo_client.errors import CannotSend
from elmo_client.selection import Selection
from elmo_client.transport.requests import check_sentence, check_text, json_bytes

BOUNDARIES = 2
"""Tokens that the server counts for each sentence in addition to its own: begin and end marker."""

# Server batches per request. With two, the server's queue is never empty between two requests of
# one client; more would only add latency. Measured with benchmarks/over_http.py.
_BATCHES_PER_REQUEST = 2

# Bytes of one response. Raising it raises the memory of the client, which holds `in_flight`
# responses at once.
_RESPONSE_BYTES = 32 * 1024**2


# Characters of a text for each word, with its space. A smaller value means more requests.
_CHARACTERS_PER_WORD = 3


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
    _are_tokens_known: ClassVar = True

    def __init__(self, info: Mapping[str, Any], selection: Selection, in_flight: int) -> None:
        """Read the limits from the response of GET /info."""
        limits: Mapping[str, int] = info["limits"]
        queue = limits["max_queue_tokens"]
        queue = min(queue, limits.get("max_client_tokens") or queue)
        self._limits = limits
        self._most_tokens = min(
            _BATCHES_PER_REQUEST * limits["max_batch_tokens"], queue // in_flight
        )
        self._most_bytes = min(_RESPONSE_BYTES, limits["max_answer_bytes"] // in_flight)
        self._selection = selection
        self._dimension = int(info["dimension"])
        if "word_vectors" in selection.members and info.get("word_vectors"):
            self._dimension += int(info["word_vectors"]["dimension"])
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

    def add(self, sentence: Any) -> EmbedRequest | None:
        """Add a sentence; return the finished request if the sentence did not fit into it.

        Raises CannotSend for a sentence that the server would refuse even alone.
        """
        number = self._next
        text, tokens = self._measured(sentence, number)
        response = self._selection.response_bytes(tokens, self._dimension, self._layers)
        self._check(number, tokens, response if self._are_tokens_known else 0, len(text))
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

    def _check(self, number: int, tokens: int, response: int, text: int) -> None:
        body = len(self._head) + text + len(b"]}")
        for does, found, key, unit in (
            ("holds", tokens, "max_sentence_tokens", "tokens"),
            ("makes a request of", body, "max_body_bytes", "bytes"),
            ("makes a response of", response, "max_answer_bytes", "bytes"),
        ):
            if found > self._limits[key]:
                raise CannotSend(
                    f"sentence {number} {does} {found:,} {unit} and the server allows "
                    f"{self._limits[key]:,} (ELMO_{key.upper()})"
                )


class TextBatches(RequestBatches):
    """Likewise for texts. Their tokens are estimated, and no text is refused by an estimate."""

    _member: ClassVar = "text"
    _are_tokens_known: ClassVar = False

    def __init__(self, info: Mapping[str, Any], selection: Selection, in_flight: int) -> None:
        super().__init__(info, selection, in_flight)
        name = selection.members.get("tokenizer") or info.get("tokenizer")
        self._token_characters = 1 if name == "characters" else _CHARACTERS_PER_WORD

    def _measured(self, sentence: Any, number: int) -> tuple[bytes, int]:
        name = f"text {number}"
        text = check_text(sentence, name)
        tokens = min(len(text) // self._token_characters + 1, self._limits["max_sentence_tokens"])
        return json_bytes(text, name), tokens
