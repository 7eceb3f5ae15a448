"""A server that follows a script: the responses that a real server gives only now and then."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from elmo_client.responses import MEDIA_TYPE
from elmo_serve.http.media_types import safetensors
from elmo_serve.http.media_types.encoder import Embeddings

Responder = Callable[[BaseHTTPRequestHandler, bytes], None]


class ScriptedServer:
    """Holds the script and the requests that came.

    `script` has one responder for each of the next requests to POST /embed; the requests
    after it are answered correctly. `requests` are the time (monotonic, seconds) and headers of
    each, `sizes` the number of its sentences. `info` responds to GET.
    """

    def __init__(self) -> None:
        self.script: list[Responder] = []
        self.requests: list[tuple[float, dict[str, str]]] = []
        self.sizes: list[int] = []
        self.info: Responder = lambda handler, _: respond(handler, 200, json.dumps(INFO).encode())
        self.arrived = threading.Semaphore(0)  # released once for each request
        self.url = ""


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """Serve on a free port of the loopback interface."""
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            scripted.info(self, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            scripted.requests.append((time.monotonic(), dict(self.headers)))
            members = json.loads(body) if body else {}
            scripted.sizes.append(len(members.get("sentences", members.get("text", ()))))
            responder = scripted.script.pop(0) if scripted.script else correct
            scripted.arrived.release()
            responder(self, body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield scripted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


INFO = {
    "model": "scripted",
    "revision": "0",
    "format": "none",
    "layers": 3,
    "dimension": 4,
    "parameters": 0,
    "precision": "float32",
    "media_types": ["application/json"],
    "limits": {
        "max_batch_tokens": 6,
        "max_queue_tokens": 100,
        "max_request_sentences": 2,
        "max_sentence_tokens": 10,
        "max_body_bytes": 10_000,
        "max_answer_bytes": 10_000,
    },
}


def respond(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    media_type: str = "application/json",
    **headers: str,
) -> None:
    """Send a whole response; underscores in the names of headers stand for hyphens."""
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def correct(
    handler: BaseHTTPRequestHandler,
    body: bytes,
    revision: str = "0",
    media_type: str = MEDIA_TYPE,
    precision: str = "float32",
) -> None:
    """Respond with vectors whose every number is the number that the first token spells."""
    members = json.loads(body)
    sentences = members.get("sentences") or [[text] for text in members.get("text", ())]
    shape = (-1, 12) if members.get("layers") == "concat" else (3, -1, 4)
    arrays = [
        np.full([len(each) if n < 0 else n for n in shape], float(each[0]), np.float32)
        for each in sentences
    ]
    texts = [json.dumps(each).encode() for each in sentences]
    answer = Embeddings(
        *("scripted", revision, precision, 4, (0, 1, 2), 0, arrays, texts, shape, "float32")
    )
    respond(handler, 200, b"".join(safetensors.encode(answer)), media_type)


def after(gate: threading.Event, responder: Responder = correct) -> Responder:
    """Respond once the test sets `gate`."""

    def act(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        gate.wait()
        responder(handler, body)

    return act


def refuse(status: int, **headers: str) -> Responder:
    """Respond with a problem document."""
    problem = {"type": "urn:x", "title": "No", "status": status, "detail": "not now"}

    def act(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        text = json.dumps(problem).encode()
        respond(handler, status, text, "application/problem+json", **headers)

    return act


def trickle(gate: threading.Event, *, head: bool = False) -> Responder:
    """Send a response byte by byte, or its head line by line, until the test sets `gate`."""

    def act(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n")
        handler.wfile.write(b"" if head else b"\r\n")
        with contextlib.suppress(OSError):  # the client is gone
            while not gate.wait(0.02):
                handler.wfile.write(b"A: b\r\n" if head else b"a")

    return act


def hang_up(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    """Close the connection without a response."""
    handler.close_connection = True
    handler.connection.close()


def break_off(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    """Close the connection within the body of a response."""
    handler.send_response(200)
    handler.send_header("Content-Type", MEDIA_TYPE)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True
