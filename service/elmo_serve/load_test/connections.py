"""HTTP connections of the load generator: h11 over asyncio streams, kept alive.

A request takes about 0.1 ms of processor time; with httpx it takes 0.7 ms with 8 clients and 5 ms
with 200, which a generator on the cores of the server would take from it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

_IDLE_SECONDS = 2.0
"""Idle time after which a connection is not used again. Servers close theirs after 5 s or more; a
request that is sent at that moment would be lost."""

_BUFFERED_BYTES = 1 << 20
"""Bytes of a response that are read at once. Lower values take more turns of the event loop."""

_CUT_OFF = "the connection was closed before the response was complete"


class LostError(Exception):
    """A request has no response: the connection failed or broke. The text has the reason."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A status, the headers by their names in lower case, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection
    idle_since: float = 0.0


class Connections:
    """Connections to one server, opened on demand, at most `most` at a time."""

    def __init__(self, url: str, most: int, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, "the URL was checked"
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self._path = parts.path.rstrip("/")
        self._headers = [("Host", parts.netloc.rpartition("@")[2]), *(headers or {}).items()]
        self._idle: list[_Connection] = []
        self._free = asyncio.Semaphore(most)

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        """Send a POST request and return the whole response.

        Raises LostError. A connection is waited for while `most` are in use.
        """
        async with self._free:
            try:
                return await self._exchange(path, body, headers)
            except h11.RemoteProtocolError as error:
                raise LostError("the response was cut off, or is not HTTP") from error
            except OSError as error:
                raise LostError(error.strerror or str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections that are idle."""
        for connection in self._idle:
            connection.writer.close()
        waits = (connection.writer.wait_closed() for connection in self._idle)
        await asyncio.gather(*waits, return_exceptions=True)
        self._idle.clear()

    async def _exchange(self, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        connection = self._from_idle() or await self._open()
        try:
            own = [*self._headers, *headers.items(), ("Content-Length", str(len(body)))]
            request = h11.Request(method="POST", target=self._path + path, headers=own)
            events = (request, h11.Data(data=body), h11.EndOfMessage())
            sent = (connection.http.send(event) or b"" for event in events)
            connection.writer.write(b"".join(sent))
            response = await _read(connection)
        except BaseException:
            connection.writer.close()
            raise
        self._keep(connection)
        return response

    def _from_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.writer.close()
        return None

    async def _open(self) -> _Connection:
        reader, writer = await asyncio.open_connection(
            self._host, self._port, limit=_BUFFERED_BYTES, ssl=self._tls
        )
        return _Connection(reader, writer, h11.Connection(h11.CLIENT))

    def _keep(self, connection: _Connection) -> None:
        try:
            connection.http.start_next_cycle()
        except h11.LocalProtocolError:  # the server closes the connection after this response
            connection.writer.close()
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)


async def _read(connection: _Connection) -> HttpResponse:
    """Return the next response of a connection."""
    status, headers, parts = 0, {}, []
    while True:
        event = connection.http.next_event()
        if event is h11.NEED_DATA:
            connection.http.receive_data(await connection.reader.read(_BUFFERED_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {
                name.decode("latin-1"): text.decode("latin-1") for name, text in event.headers
            }
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return HttpResponse(status, headers, b"".join(parts))
        elif isinstance(event, h11.ConnectionClosed):
            raise LostError(_CUT_OFF)
