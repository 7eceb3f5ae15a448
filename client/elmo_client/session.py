"""What both clients know of a server and do with it, as steps for either to perform."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_client.errors import BadAnswer, CannotSend, ModelChanged, TooLarge
from elmo_client.request_batches import Cutter, Options, Piece, Wanted
from elmo_client.retry import exchange, json_of
from elmo_client.steps import END, Call, Collect, Compute, Start, Steps, StreamSteps, Take
from elmo_model.task import Task
from elmo_serve.http.media_types import safetensors

Vectors = NDArray[Any]

_KEY = re.compile(r"[!-~]+")
_CONNECT_SECONDS = 10.0
_GRACE_SECONDS = 5.0  # for a server that answers 504 at the deadline itself


class Session:
    """A server, as one client sees it; may be shared by threads."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout_seconds: float,
        patience_seconds: float,
        in_flight: int,
    ) -> None:
        """Check what a client was told; see `Client`. Raises CannotSend."""
        if in_flight < 1:
            raise CannotSend(f"in_flight is {in_flight}; it is at least 1")
        if not 0 < timeout_seconds < math.inf:
            raise CannotSend(f"timeout_seconds is {timeout_seconds}; it is above 0 and finite")
        # Said here and without the key: the errors of a refused header would show it.
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise CannotSend("the API key is empty or holds more than printable ASCII, spaces none")
        self.in_flight = in_flight
        self._patience = patience_seconds
        self._known: dict[str, Any] | None = None
        headers = {"Accept-Encoding": "identity", "X-Request-Timeout": f"{timeout_seconds:g}"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self.http_options: dict[str, Any] = {
            "base_url": _checked(url),
            "headers": headers,
            "timeout": httpx.Timeout(timeout_seconds + _GRACE_SECONDS, connect=_CONNECT_SECONDS),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=in_flight),
        }

    def stream(self, options: Options) -> StreamSteps:
        """Embed any number of sentences: what is collected is a list of arrays for each request."""
        info = yield from self.info()
        cutter = Cutter(
            info["limits"], int(info["dimension"]), Wanted.of(options, info), self.in_flight
        )
        while (sentence := (yield Take())) is not END:
            if (piece := cutter.add(sentence)) is not None:
                yield Start(self._embed(piece, info["revision"]))
                yield Collect(self.in_flight - 1)
        if (piece := cutter.rest()) is not None:
            yield Start(self._embed(piece, info["revision"]))
        yield Collect(0)

    def info(self) -> Steps[dict[str, Any]]:
        """Return what GET /info says; asked once."""
        if self._known is None:
            self._known = json_of((yield from self._send(Call("GET", "/info"))))
        return self._known

    def tasks(self) -> Steps[tuple[Task, ...]]:
        """Return the registered tasks in the order of their names."""
        found = json_of((yield from self._send(Call("GET", "/tasks"))))
        return tuple(_task(entry) for entry in found["tasks"])

    def put_task(
        self,
        name: str,
        weights: Sequence[float],
        gamma: float,
        layer_norm: bool,
        description: str,
    ) -> Steps[Task]:
        """Register a task and return it."""
        task = Task(name, tuple(weights), gamma, layer_norm, description)
        try:
            call = Call("PUT", _path(name), orjson.dumps(asdict(task)))
        except orjson.JSONEncodeError as error:
            raise CannotSend(f"task {name!r:.60} cannot be written as JSON: {error}") from error
        return _task(json_of((yield from self._send(call))))

    def delete_task(self, name: str) -> Steps[None]:
        """Forget a task."""
        # Sent twice, the second would find nothing: not repeated when nobody knows whether it was
        # seen.
        yield from self._send(Call("DELETE", _path(name), repeatable=False))

    def _embed(self, piece: Piece, revision: str) -> Steps[list[Vectors]]:
        call = Call("POST", "/embed", piece.body, safetensors.ENCODING.media_type)
        try:
            response = yield from self._send(call, piece.first)
            arrays: list[Vectors] = yield Compute(partial(_vectors, response, piece, revision))
        except (ModelChanged, TooLarge):
            self._known = None  # the answer contradicts it: it is asked for anew
            raise
        return arrays

    def _send(self, call: Call, first: int = 0) -> Steps[httpx.Response]:
        return exchange(call, self._patience, first)


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise CannotSend(f"{url!r:.80} is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CannotSend(f"{url!r:.80} is no URL of a server, such as http://127.0.0.1:8000")
    return parsed


def _path(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _task(found: Mapping[str, Any]) -> Task:
    return Task(
        found["name"],
        tuple(found["weights"]),
        found["gamma"],
        found["layer_norm"],
        found["description"],
    )


def _vectors(response: httpx.Response, piece: Piece, revision: str) -> list[Vectors]:
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
