"""Reads the responses of the server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

import httpx
import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_client.batches import EmbedRequest
from elmo_client.errors import BadAnswer, ModelChanged
from elmo_client.results import (
    EmbeddedText,
    Offset,
    Scores,
    Task,
    TokenizedText,
    Vectors,
)

MEDIA_TYPE = "application/vnd.safetensors"

_INFO_MEMBERS = ("model", "revision", "layers", "dimension", "limits")

_Result = TypeVar("_Result")


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
    members = {each.name: found[each.name] for each in fields(Task) if each.name != "measure"}
    measure = (found.get("fit") or {}).get("measure")
    return Task(**{**members, "weights": tuple(found["weights"]), "measure": measure})


def vectors_of(
    response: httpx.Response, request: EmbedRequest, info: Mapping[str, Any]
) -> list[Vectors]:
    """Return one writable array per sentence of `request`.

    Raises ModelChanged if a model of another revision or precision than that of `info` computed
    them, BadAnswer for a body that is not the safetensors of this request.
    """
    arrays, _ = _read(response, request, info)
    return arrays


@_lacking("tokens or offsets")
def texts_of(
    response: httpx.Response, request: EmbedRequest, info: Mapping[str, Any]
) -> list[EmbeddedText]:
    """Return tokens, offsets and vectors of each text of `request`. Raises as `vectors_of` does."""
    arrays, metadata = _read(response, request, info)
    tokens, offsets = (orjson.loads(metadata[name]) for name in ("tokens", "offsets"))
    return [
        EmbeddedText(text, tuple(own), _offsets(places), array)
        for text, own, places, array in zip(request.texts, tokens, offsets, arrays, strict=True)
    ]


@_lacking("tokens")
def tokens_of(response: httpx.Response, request: EmbedRequest) -> list[TokenizedText]:
    """Return the tokens of texts from the response of POST /tokenize."""
    found = json_of(response)
    lists = zip(request.texts, found["tokens"], found["offsets"], strict=True)
    return [TokenizedText(text, tuple(tokens), _offsets(places)) for text, tokens, places in lists]


@_lacking("centre")
def centre_of(found: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the mean of each layer, (L + 1, 2P), of the server's JSON."""
    return np.array(found["layers"], np.float32)


@_lacking("scores")
def scores_of(response: httpx.Response, request: EmbedRequest) -> list[Scores]:
    """Return the scores of the sentences of a request."""
    found = json_of(response)
    tokens = found["tokens"] if request.texts else orjson.loads(request.body)["sentences"]
    return [
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


@_lacking("substitutes")
def substitutes_of(found: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the substitutes of one sentence, by place."""
    places: list[list[dict[str, Any]]]
    (places,) = found["substitutes"]
    return places


def _offsets(pairs: Sequence[Sequence[int]]) -> tuple[Offset, ...]:
    return tuple((start, end) for start, end in pairs)


def _read(
    response: httpx.Response, request: EmbedRequest, info: Mapping[str, Any]
) -> tuple[list[Vectors], dict[str, str]]:
    """Return the arrays of a response and its metadata."""
    found = response.headers.get("content-type", "without a media type")
    if found.partition(";")[0].strip().lower() != MEDIA_TYPE:  # RFC 9110, 8.3.1
        raise BadAnswer(f"the response is {found}, not {MEDIA_TYPE}")
    with _lacking("array"):
        tensors, metadata = _tensors(response.content)
        # A server of an earlier version does not say its precision.
        found_by = metadata["revision"], metadata.get("precision", info.get("precision"))
        arrays = [tensors[str(index)] for index in range(len(tensors))]
    wanted = info["revision"], info.get("precision")
    if found_by != wanted:
        before, after = (f"{revision} in {precision}" for revision, precision in (wanted, found_by))
        raise ModelChanged(f"the server's model changed from {before} to {after}")
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


def _address(response: httpx.Response) -> str:
    return str(response.request.url.copy_with(username=None, password=None))
