"""A server on loopback that does what servers do to those who download."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from elmo_model.catalogue import File, Published

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
WEIGHTS_PATH = "/mirror/elmo/tiny/elmo_tiny_weights.hdf5"


@dataclass
class Shelf:
    """What a server has and how it behaves; `asked` lists path and Range of every request."""

    files: dict[str, bytes]
    address: str = ""
    etag: str | None = '"one"'
    ranges: bool = True
    said: int | None = None  # the length that it claims
    chunked: bool = False
    encoding: str | None = None
    range_shift: int = 0
    cuts: list[int] = field(default_factory=list)  # bytes of each answer to weights, then cut
    statuses: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def of_weights(self) -> list[str | None]:
        return [ranged for path, ranged in self.asked if path.endswith(".hdf5")]


class Handler(BaseHTTPRequestHandler):
    shelf: Shelf

    def do_GET(self) -> None:
        shelf = self.shelf
        ranged = self.headers.get("Range")
        shelf.asked.append((self.path, ranged))
        if shelf.statuses:
            self.send_error(shelf.statuses.pop(0))
            return
        if self.path not in shelf.files:
            self.send_error(404)
            return
        content, start = shelf.files[self.path], 0
        same = self.headers.get("If-Range") == shelf.etag
        if ranged and shelf.ranges and same:
            start = int(ranged.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            first = start + shelf.range_shift
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if shelf.etag:
            self.send_header("ETag", shelf.etag)
        if shelf.encoding:
            self.send_header("Content-Encoding", shelf.encoding)
        if not shelf.chunked:
            length = len(content) - start if shelf.said is None else shelf.said
            self.send_header("Content-Length", str(length))
        self.end_headers()
        body = content[start:]
        if self.path.endswith(".hdf5") and shelf.cuts:
            body = body[: shelf.cuts.pop(0)]
        self.wfile.write(body)  # then the connection is closed, as HTTP/1.0 has it

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Shelf]:
    """Serve a tiny model on a free port."""
    shelf = Shelf({f"/mirror/{MODEL.files[0].path}": OPTIONS, WEIGHTS_PATH: WEIGHTS})
    handler = type("OfThisShelf", (Handler,), {"shelf": shelf})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        shelf.address = f"http://127.0.0.1:{server.server_port}/mirror/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield shelf
        server.shutdown()
        thread.join()
