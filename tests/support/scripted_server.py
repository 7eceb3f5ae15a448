"""A server that does what it is told, for what no real one does when it is wanted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from elmo_serve.http.media_types import safetensors
from elmo_serve.http.media_types.encoder import Answer


class Told:
    """What it answers next, by request to POST /embed; and what it was asked."""

    def __init__(self) -> None:
        self.script: list[Callable[[BaseHTTPRequestHandler, bytes], None]] = []
        self.asked: list[tuple[float, dict[str, str]]] = []
        self.sizes: list[int] = []  # sentences of each request
        self.url = ""


@contextmanager
def telling() -> Iterator[Told]:
    """Serve on a free port of loopback."""
    it = Told()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, 200, json.dumps(INFO).encode(), "application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            it.asked.append((time.monotonic(), dict(self.headers)))
            it.sizes.append(len(json.loads(body)["sentences"]) if body else 0)
            (it.script.pop(0) if it.script else right)(self, body)

        do_DELETE = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    it.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield it
    server.shutdown()
    thread.join()
    server.server_close()


INFO = {
    "model": "told",
    "revision": "0",
    "format": "none",
    "layers": 3,
    "dimension": 4,
    "parameters": 0,
    "precision": "float32",
    "limits": {
        "max_batch_tokens": 6,
        "max_queue_tokens": 100,
        "max_request_sentences": 2,
        "max_sentence_tokens": 10,
        "max_body_bytes": 10_000,
        "max_answer_bytes": 10_000,
    },
}


def answer(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, media_type: str, **headers: str
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def right(handler: BaseHTTPRequestHandler, body: bytes, revision: str = "0") -> None:
    """Answer every sentence with the number that its first token is."""
    sentences = json.loads(body)["sentences"]
    arrays = [np.full((3, len(each), 4), float(each[0]), np.float32) for each in sentences]
    texts = [json.dumps(each).encode() for each in sentences]
    told = Answer("told", revision, 4, (0, 1, 2), 0, arrays, texts, (3, -1, 4), "float32")
    made = safetensors.encode(told)
    answer(handler, 200, b"".join(made), safetensors.ENCODING.media_type)


def refuse(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    problem = {"type": "urn:x", "title": "No", "status": status, "detail": "not now"}

    def act(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        text = json.dumps(problem).encode()
        answer(handler, status, text, "application/problem+json", **headers)

    return act


def hang_up(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.close_connection = True
    handler.connection.close()


def break_off(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", safetensors.ENCODING.media_type)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True
