"""Reads the responses of the server."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray

from elmo_client.errors import BadAnswer, ModelChanged
from elmo_client.request_batches import EmbedRequest
from elmo_client.task import Task
from elmo_client.text import EmbeddedText, TokenizedText, offsets_of

Vectors = NDArray[Any]

MEDIA_TYPE = "application/vnd.safetensors"

_INFO_MEMBERS = ("model", "revision", "layers", "dimension", "limits")


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


def task_of(found: Mapping[str, Any]) -> Task:
    """Return a task of the server's JSON. Raises BadAnswer if a member is missing."""
    try:
        return Task(
            found["name"],
            tuple(found["weights"]),
            found["gamma"],
            found["layer_norm"],
            found["description"],
        )
    except (KeyError, TypeError) as error:
        raise BadAnswer(f"the server sent a task without {error}") from error


def vectors_of(response: httpx.Response, request: EmbedRequest, revision: str) -> list[Vectors]:
    """Return one writable array per sentence of `request`.

    Raises ModelChanged if a model of another revision than `revision` computed them, BadAnswer for
    a body that is not the safetensors of this request.
    """
    return _read(response, request, revision)[0]


def texts_of(response: httpx.Response, request: EmbedRequest, revision: str) -> list[EmbeddedText]:
    """Return tokens, offsets and vectors of each text of `request`. Raises as `vectors_of` does."""
    arrays, metadata = _read(response, request, revision)
    try:
        tokens, offsets = (orjson.loads(metadata[name]) for name in ("tokens", "offsets"))
        return [
            EmbeddedText(text, tuple(own), offsets_of(places), array)
            for text, own, places, array in zip(request.texts, tokens, offsets, arrays, strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswer(f"the response lacks tokens or offsets: {error!r}") from error


def tokens_of(found: Mapping[str, Any], texts: Sequence[str]) -> list[TokenizedText]:
    """Return the tokens of texts from the response of POST /tokenize. Raises BadAnswer."""
    try:
        return [
            TokenizedText(text, tuple(tokens), offsets_of(offsets))
            for text, tokens, offsets in zip(texts, found["tokens"], found["offsets"], strict=True)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswer(f"the server sent no tokens: {error!r}") from error


def _read(
    response: httpx.Response, request: EmbedRequest, revision: str
) -> tuple[list[Vectors], dict[str, str]]:
    """Return the arrays of a response and its metadata."""
    found = response.headers.get("content-type", "without a media type")
    if found != MEDIA_TYPE:
        raise BadAnswer(f"the response is {found}, not {MEDIA_TYPE}")
    body = response.content
    try:
        header = orjson.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])
        metadata = header["__metadata__"]
        computed_by = metadata["revision"]
        tensors = safetensors.numpy.load(body)
        arrays = [tensors[str(index)] for index in range(len(tensors))]
    except Exception as error:  # the errors of the library for damaged bytes share no base class
        raise BadAnswer(f"the response is not safetensors: {error}") from error
    if computed_by != revision:
        raise ModelChanged(f"the server's model changed from {revision} to {computed_by}")
    if len(arrays) != request.count:
        raise BadAnswer(f"{len(arrays)} arrays came for {request.count} sentences")
    return [array if array.flags.writeable else np.array(array) for array in arrays], metadata


def _address(response: httpx.Response) -> str:
    return str(response.request.url.copy_with(username=None, password=None))
