"""Reads the responses of the server, and warns of tokens in them, once for each call."""

import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import httpx
import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_client.errors import BadAnswer, ModelChanged
from elmo_client.results import (
    EmbeddedText,
    Neighbour,
    Neighbours,
    Offset,
    Scores,
    StaticNeighbour,
    Substitute,
    Task,
    TokenizedText,
    Vectors,
)
from elmo_client.transport.requests import EmbedRequest

MEDIA_TYPE = "application/vnd.safetensors"

_INFO_MEMBERS = ("model", "revision", "layers", "dimension", "limits")

_Result = TypeVar("_Result")

_kept: ContextVar[list[str] | None] = ContextVar("_kept", default=None)
"""The warnings of a coroutine that runs for another thread, which shows them."""


class TokenWarning(UserWarning):
    """A token is longer than the model reads, or has white space inside."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[_Result]):
    """The results of one request, and the server's warning about its tokens; empty for none."""

    results: list[_Result]
    warning: str = ""


@contextmanager
def _lacking(what: str) -> Iterator[None]:
    """Raise BadAnswer in place of the errors of a response that has none."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadAnswer(f"the server sent no {what}: {error!r}") from error


def json_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response. Raises BadAnswer if there is none."""
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"the response of {_address(response)} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadAnswer(f"the response of {_address(response)} is not a JSON object")
    return found


def info_of(response: httpx.Response) -> dict[str, Any]:
    """Return the object of GET /info. Raises BadAnswer if it is not one of elmo-serve."""
    info = json_of(response)
    if missing := [name for name in _INFO_MEMBERS if name not in info]:
        raise BadAnswer(
            f"the response of {_address(response)} lacks {', '.join(missing)}: "
            "elmo-serve does not run there"
        )
    return info


def models_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the models of a server from the response of GET /info."""
    listed = info.get("models", ())
    return tuple(each["model"] for each in listed) or (info["model"],)


@_lacking("whole task")
def task_of(found: Mapping[str, Any]) -> Task:
    """Return a task of the server's JSON."""
    members = {each.name: found[each.name] for each in fields(Task)}
    return Task(**{**members, "weights": tuple(found["weights"])})


def vectors_of(response: httpx.Response, request: EmbedRequest, revision: str) -> Answer[Vectors]:
    """Return one writable array per sentence of `request`.

    Raises ModelChanged if a model of another revision than `revision` computed them, BadAnswer for
    a body that is not the safetensors of this request.
    """
    arrays, metadata = _read(response, request, revision)
    hint = "; for text, use embed_text"
    return Answer(arrays, warning_of(response, _listed(metadata), request, hint))


@_lacking("tokens or offsets")
def texts_of(
    response: httpx.Response, request: EmbedRequest, revision: str
) -> Answer[EmbeddedText]:
    """Return tokens, offsets and vectors of each text of `request`. Raises as `vectors_of` does."""
    arrays, metadata = _read(response, request, revision)
    tokens, offsets = (orjson.loads(metadata[name]) for name in ("tokens", "offsets"))
    texts = [
        EmbeddedText(text, tuple(own), _offsets(places), array)
        for text, own, places, array in zip(request.texts, tokens, offsets, arrays, strict=True)
    ]
    return Answer(texts, warning_of(response, _listed(metadata), request))


@_lacking("tokens")
def tokens_of(response: httpx.Response, request: EmbedRequest) -> Answer[TokenizedText]:
    """Return the tokens of texts from the response of POST /tokenize."""
    found = json_of(response)
    lists = zip(request.texts, found["tokens"], found["offsets"], strict=True)
    texts = [TokenizedText(text, tuple(tokens), _offsets(places)) for text, tokens, places in lists]
    return Answer(texts, warning_of(response, found.get("warnings"), request))


@_lacking("centre")
def centre_of(found: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the mean of each layer, (L + 1, 2P), of the server's JSON."""
    return np.array(found["layers"], np.float32)


@_lacking("neighbours")
def neighbours_of(found: Mapping[str, Any]) -> Neighbours:
    """Return the neighbours of a response."""
    return Neighbours(
        tuple(found["tokens"]),
        found["token"],
        tuple(
            Neighbour(tuple(each["sentence"]), each["token"], each["cosine"])
            for each in found["neighbours"]
        ),
        tuple(StaticNeighbour(each["word"], each["cosine"]) for each in found["static"]),
    )


@_lacking("scores")
def scores_of(response: httpx.Response, request: EmbedRequest) -> Answer[Scores]:
    """Return the scores of the sentences of a request."""
    found = json_of(response)
    tokens = found["tokens"] if request.texts else orjson.loads(request.body)["sentences"]
    scores = [
        Scores(
            tuple(own),
            np.array(each["forward"], np.float32),
            np.array(each["backward"], np.float32),
            np.array(each["both"], np.float32),
            np.array(each["unknown"], bool),
            (each["end"]["forward"], each["end"]["backward"]),
        )
        for own, each in zip(tokens, found["scores"], strict=True)
    ]
    return Answer(scores, warning_of(response, found.get("warnings"), request))


@_lacking("substitutes")
def substitutes_of(found: Mapping[str, Any]) -> list[list[Substitute]]:
    """Return the substitutes of one sentence, by place."""
    (places,) = found["substitutes"]
    return [[Substitute(each["word"], each["probability"]) for each in own] for own in places]


def _offsets(pairs: Sequence[Sequence[int]]) -> tuple[Offset, ...]:
    return tuple((start, end) for start, end in pairs)


def _read(
    response: httpx.Response, request: EmbedRequest, revision: str
) -> tuple[list[Vectors], dict[str, str]]:
    """Return the arrays of a response and its metadata."""
    found = response.headers.get("content-type", "without a media type")
    if found != MEDIA_TYPE:
        raise BadAnswer(f"the response is {found}, not {MEDIA_TYPE}")
    with _lacking("array"):
        tensors, metadata = _tensors(response.content)
        computed_by = metadata["revision"]
        arrays = [tensors[str(index)] for index in range(len(tensors))]
    if computed_by != revision:
        raise ModelChanged(f"the server's model changed from {revision} to {computed_by}")
    if len(arrays) != request.count:
        raise BadAnswer(f"{len(arrays)} arrays came for {request.count} sentences")
    return [array if array.flags.writeable else np.array(array) for array in arrays], metadata


def _tensors(body: bytes) -> tuple[dict[str, Vectors], dict[str, str]]:
    """Return the tensors of safetensors and the metadata. Raises BadAnswer."""
    try:
        header = orjson.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        return safetensors.numpy.load(body), header["__metadata__"]
    except Exception as error:  # the errors of the library for damaged bytes share no base class
        raise BadAnswer(f"the response is not safetensors: {error}") from error


@_lacking("warnings")
def warning_of(
    response: httpx.Response,
    warnings: Sequence[Mapping[str, str]] | None,
    request: EmbedRequest | None = None,
    hint: str = "",
) -> str:
    """Return the first warning about a token and its place; empty for none.

    `request` is one of several of a call, whose sentences are counted over all of them. `hint` is
    for white space in a token.
    """
    if not warnings:
        return ""
    place = warnings[0]["pointer"]
    if request is not None:
        _, _, number, *_ = place.split("/")
        place = f"{'text' if request.texts else 'sentence'} {request.first + int(number)}"
    more = int(response.headers["x-warnings"]) - 1
    others = f" (and {more:,} more in this request)" if more else ""
    detail = warnings[0]["detail"]
    return f"{place}: {detail}{hint if 'white space' in detail else ''}{others}"


def _listed(metadata: Mapping[str, str]) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = orjson.loads(metadata.get("warnings", "[]"))
    return listed


def _address(response: httpx.Response) -> str:
    return str(response.request.url.copy_with(username=None, password=None))


@dataclass(slots=True)
class WarnOnce:
    """Warns of the first odd token of a call; the others of a corpus would only repeat it."""

    is_done: bool = False

    def results(self, answer: Answer[_Result]) -> list[_Result]:
        """Return the results of an answer, and warn of its first token."""
        if answer.warning and not self.is_done:
            self.is_done = True
            warn(answer.warning)
        return answer.results


def warn(text: str) -> None:
    """Warn at the line of the user's call; do nothing for an empty text."""
    if (kept := _kept.get()) is not None:
        kept.append(text)
    elif text:
        warnings.warn(text, TokenWarning, stacklevel=_level())


async def keep_warnings(
    kept: list[str], function: Callable[..., Awaitable[_Result]], *arguments: Any
) -> _Result:
    """Run a coroutine, and append its warnings to `kept` for the thread that waits for it."""
    _kept.set(kept)
    return await function(*arguments)


def _level() -> int:
    """Return the `stacklevel` for the caller: the nearest frame that is not of these packages."""
    frame, level, own = sys._getframe(1), 1, ("elmo_client.", "elmo_serve.", "sklearn.")
    while frame.f_globals.get("__name__", "").startswith(own) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    return level
