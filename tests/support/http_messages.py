"""HTTP without a client: an ASGI request, bytes on a socket, bodies of media types, the errors."""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
import safetensors.numpy
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.errors import TYPE_PREFIX, ServiceError
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings
from tests.support.servers import Running


def http_scope(path: str = "/embed", method: str = "POST", **headers: str) -> Scope:
    """Return the scope of a request; underscores in the names of headers stand for hyphens.

    A POST is one of JSON, unless `content_type` says otherwise.
    """
    if method == "POST":
        headers = {"content_type": "application/json", **headers}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "headers": [
            (name.replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, value in headers.items()
        ],
        "client": ("192.0.2.7", 1234),
        "state": {"request_id": "id-1", "log_fields": {}},
    }


def pieces(*contents: bytes, is_whole: bool = True) -> Receive:
    """Return a `receive` that gives a body in these pieces, and then a disconnect."""
    ahead: list[Message] = [
        {"type": "http.request", "body": content, "more_body": True} for content in contents
    ]
    if is_whole:
        ahead = ahead or [{"type": "http.request", "body": b""}]
        ahead[-1]["more_body"] = False

    async def receive() -> Message:
        return ahead.pop(0) if ahead else {"type": "http.disconnect"}

    return receive


class Route:
    """An application that reads the body and responds 200; it keeps the scopes that reached it."""

    def __init__(self, *, reads: bool = True) -> None:
        self.scopes: list[Scope] = []
        self.body = b""
        self._reads = reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        more = self._reads and scope["type"] == "http"
        while more:
            message = await receive()
            self.body += message.get("body", b"")
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def respond(app: ASGIApp, scope: Scope, receive: Receive | None = None) -> dict[str, Any]:
    """Run an application for one request; return the start of its response."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive or pieces(), send)
    return dict(sent[0]) if sent else {}


HEAD = b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
"""The start of a head, to which framing is added."""

JSON = {"Content-Type": "application/json"}

GOOD = b'{"sentences": [["a"]], "layers": "top"}'
"""A body that is answered 200."""

GUARD_SECONDS = 120.0
"""A read that takes longer fails the test instead of hanging it."""


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    """Connect to a server."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), GUARD_SECONDS) as connection:
        yield connection


def read(connection: socket.socket) -> bytes:
    """Return everything until the server closes the connection."""
    data = b""
    with suppress(ConnectionResetError):
        while some := connection.recv(65536):
            data += some
    return data


def response(connection: socket.socket) -> bytes:
    """Return one response with its body."""
    data = b""
    while (head := re.search(rb"content-length: (\d+)(?s:.*?)\r\n\r\n", data)) is None:
        data += received(connection)
    while len(data) < head.end() + int(head[1]):
        data += received(connection)
    return data


def received(connection: socket.socket) -> bytes:
    """Return the next bytes; raises AssertionError where the server has closed the connection."""
    data = connection.recv(65536)
    assert data, "the connection was closed"
    return data


def statuses(responses: bytes) -> list[int]:
    """Return the status codes of some responses."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", responses)]


def problem(answer: bytes, status: int, slug: str) -> dict[str, Any]:
    """Check that a response is a whole problem document with its request id; return its members."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:500]
    assert b"content-type: application/problem+json" in head
    assert b"content-length: %d" % len(body) in head
    members: dict[str, Any] = json.loads(body)
    assert members["type"] == TYPE_PREFIX + slug
    assert members["status"] == status
    assert f"x-request-id: {members['instance']}".encode() in head
    return members


def tree(cls: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    """Return a class and everything below it, in the order of their definition."""
    return [cls, *(each for child in cls.__subclasses__() for each in tree(child))]


ERRORS = sorted((cls for cls in tree() if not cls.__subclasses__()), key=lambda cls: cls.status)
"""The leaves, in the order of their status. Clients see no other class."""


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def embeddings(vectors: Sequence[Any], layers: tuple[int, ...] | None = (0, 1, 2)) -> Embeddings:
    sentences = [b'["a", ""]'] * len(vectors)
    shape: tuple[int, ...] = (4,)
    dtype: Any = "float32"
    if vectors:  # of what tests put in, two axes are tokens and width
        shape = (*vectors[0].shape[:-2], -1, 4) if vectors[0].ndim > 1 else (4,)
        dtype = vectors[0].dtype.name
    return Embeddings("m", "r", "float32", 4, layers, 7, vectors, sentences, shape, dtype)


def body(media_type: str, vectors: Sequence[Any]) -> bytes:
    return b"".join(ENCODERS[media_type].encode(embeddings(vectors)))


def decoded(media_type: str, data: bytes) -> list[Any]:
    """Return the array of each sentence."""
    if media_type == "application/json":
        content = orjson.loads(data)
        found = [np.asarray(sentence, np.float32) for sentence in content["embeddings"]]
        # Lists lose the width where there are no tokens.
        width = content["dimension"]
        return [a if a.size else a.reshape(*a.shape[:-1], 0, width) for a in found]
    if media_type == "application/vnd.safetensors":
        tensors = safetensors.numpy.load(data)
    else:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            tensors = {name: archive[name] for name in archive.files if name.isdecimal()}
    return [tensors[str(index)] for index in range(len(tensors))]
