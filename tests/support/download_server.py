"""A mirror of published models on loopback, which can misbehave as real servers do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from elmo_model.models.published import File, Published
from elmo_serve.models.checks import SUMS

OPTIONS = json.dumps({"lstm": {}}).encode()
WEIGHTS = b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 4096  # a little over 1 MiB
MODEL = Published(
    "tiny",
    "nothing",
    (
        File("elmo/tiny/elmo_tiny_options.json", 2, 1 << 20),
        File("elmo/tiny/elmo_tiny_weights.hdf5", 1 << 20, 1 << 21),
    ),
)
OPTIONS_PATH = "/mirror/elmo/tiny/elmo_tiny_options.json"
WEIGHTS_PATH = "/mirror/elmo/tiny/elmo_tiny_weights.hdf5"


@dataclass
class Mirror:
    """The files of a server and its behaviour; `requests` lists the path of every request."""

    files: dict[str, bytes]
    address: str = ""
    content_length: str | None = None  # sent in place of the true length
    chunked: bool = False
    encoding: str | None = None
    redirects_to_itself: bool = False
    cuts: list[int] = field(default_factory=list)  # bytes of each response with weights, then cut
    statuses: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)  # the User-Agent of every request


class Handler(BaseHTTPRequestHandler):
    mirror: Mirror

    def do_GET(self) -> None:
        mirror = self.mirror
        mirror.requests.append(self.path)
        mirror.agents.append(self.headers.get("User-Agent", ""))
        if mirror.statuses:
            self.send_error(mirror.statuses.pop(0))
            return
        if self.path not in mirror.files:
            self.send_error(404)
            return
        if mirror.redirects_to_itself:
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
            return
        self._send(mirror.files[self.path])

    def _send(self, content: bytes) -> None:
        mirror = self.mirror
        self.send_response(200)
        if mirror.encoding:
            self.send_header("Content-Encoding", mirror.encoding)
        if not mirror.chunked:
            self.send_header("Content-Length", mirror.content_length or str(len(content)))
        self.end_headers()
        if self.path.endswith(".hdf5") and mirror.cuts:
            content = content[: mirror.cuts.pop(0)]
        self.wfile.write(content)  # then the connection is closed, as in HTTP/1.0

    def log_message(self, *_: object) -> None:
        pass


def assert_whole(folder: Path) -> None:
    """Assert that the tiny model is in a folder of the cache, and nothing else but its notes."""
    assert (folder / "elmo_tiny_options.json").read_bytes() == OPTIONS
    assert (folder / "elmo_tiny_weights.hdf5").read_bytes() == WEIGHTS
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", SUMS, "elmo_tiny_options.json", "elmo_tiny_weights.hdf5"}


@contextmanager
def serving_files(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port; yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with _running(partial(Quiet, directory=folder)) as address:
        yield address


@contextmanager
def serving() -> Iterator[Mirror]:
    """Serve a tiny model on a free port."""
    mirror = Mirror({OPTIONS_PATH: OPTIONS, WEIGHTS_PATH: WEIGHTS})
    handler = type("HandlerOfThisMirror", (Handler,), {"mirror": mirror})
    with _running(handler) as address:
        mirror.address = f"{address}/mirror/"
        yield mirror


@contextmanager
def _running(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
