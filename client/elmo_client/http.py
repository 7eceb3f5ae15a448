"""One server over HTTP: sends requests, retries them, and keeps the response of GET /info."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypedDict, TypeVar
from urllib.parse import quote
from urllib.request import getproxies

import httpx

from elmo_client.batches import EmbedRequest
from elmo_client.errors import (
    BadAnswer,
    CannotSend,
    ModelChanged,
    NotFound,
    TooLarge,
    Unreachable,
    refusal,
    shown,
)
from elmo_client.responses import MEDIA_TYPE, info_of, scores_of, tokens_of
from elmo_client.results import Scores, TokenizedText
from elmo_client.retry import NEVER_CONNECTED, Attempts, Outcome

_Result = TypeVar("_Result")

_KEY = re.compile(r"[!-~]+")
_UNKNOWN_MODEL = "urn:elmo-serve:error:unknown-model"
_CONNECT_SECONDS = 10.0

# Variables that httpx reads; it knows those of proxies in lower case as well.
_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"),
    *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)

# Seconds that the client waits longer than the server, so that the server's own 504 arrives.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request, which the server may process twice."""

    method: str
    path: str
    content: bytes | None = None
    accept: str = "application/json"

    @property
    def headers(self) -> dict[str, str]:
        content = {} if self.content is None else {"Content-Type": "application/json"}
        return {"Accept": self.accept, **content}


class ClientOptions(TypedDict, total=False):
    """How a client reaches its server.

    api_key: one of the server's keys, if it requires one. No error shows it.
    model: one of the server's models; None (the default) for the first one.
    timeout_seconds: within which the response to one request begins, and again within which it is
        complete, 60 by default; 5 seconds more are allowed for the way. The server is told, and
        drops what it has not begun by then.
    patience_seconds: how long a request that failed is sent again, where that may help, 60 by
        default. A server that has never responded is tried for 5 seconds at most.
    in_flight: requests at once, at least 1; 4 by default.
    """

    api_key: str | None
    model: str | None
    timeout_seconds: float
    patience_seconds: float
    in_flight: int


class Session:
    """The connections to one server; belongs to one event loop."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        timeout_seconds: float = 60.0,
        patience_seconds: float = 60.0,
        in_flight: int = 4,
        grace_seconds: float = _GRACE_SECONDS,
        connect_seconds: float = _CONNECT_SECONDS,
    ) -> None:
        """Check the arguments; see `ClientOptions`. Raises CannotSend."""
        if in_flight < 1:
            raise CannotSend(f"in_flight is {in_flight}; expected at least 1")
        # Checked here, because httpx shows the key in the error of a header that it refuses.
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise CannotSend("api_key is empty, or has spaces, line ends or letters beyond ASCII")
        headers = {"Accept-Encoding": "identity", "X-Request-Timeout": f"{timeout_seconds:g}"}
        base = _checked(url)
        if api_key is not None and base.userinfo:  # which httpx sends as Authorization
            headers["X-API-Key"] = api_key
        elif api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self.address = str(base.copy_with(username=None, password=None)).rstrip("/")
        self.model = model
        self.in_flight = in_flight
        self._patience_seconds = patience_seconds
        self._limit_seconds = timeout_seconds + grace_seconds
        self._connect_seconds = connect_seconds
        self._info: dict[str, Any] | None = None
        self._responded = False
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._http = httpx.AsyncClient(
                base_url=base,
                headers=headers,
                timeout=httpx.Timeout(timeout_seconds + grace_seconds, connect=connect_seconds),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=in_flight),
                verify=_needs_certificates(base),
            )
        except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
            raise CannotSend(f"of {variables()} in the environment: {error}") from error

    async def info(self) -> dict[str, Any]:
        """Return the response of GET /info, from the second call on without asking."""
        if self._info is None:
            try:
                response = await self.send(Call("GET", "/info" + query_of(self.model)))
            except NotFound as error:
                if error.problem.type == _UNKNOWN_MODEL:
                    raise
                raise BadAnswer(
                    f"{self.address}/info is not found: elmo-serve does not run there. Give the "
                    "address of the server without a path, such as http://localhost:8000"
                ) from error
            self._info = info_of(response)
        return self._info

    async def embed(
        self,
        read: Callable[[httpx.Response, EmbedRequest, Mapping[str, Any]], list[_Result]],
        request: EmbedRequest,
        info: Mapping[str, Any],
    ) -> list[_Result]:
        """Return what `read` finds in the response: vectors of the model of `info`."""
        call = Call("POST", "/embed", request.body, MEDIA_TYPE)
        try:
            response = await self.send(call, request.first)
            return await _read_aside(read, response, request, info)
        except (ModelChanged, TooLarge):
            self._info = None  # the model or the limits changed: the next call asks again
            raise

    async def tokenize(
        self, request: EmbedRequest, _info: Mapping[str, Any]
    ) -> list[TokenizedText]:
        """Return the tokens of the texts of a request; every revision splits them alike."""
        response = await self.send(Call("POST", "/tokenize", request.body), request.first)
        return tokens_of(response, request)

    async def score(self, request: EmbedRequest, _info: Mapping[str, Any]) -> list[Scores]:
        """Return the scores of the sentences or texts of a request."""
        response = await self.send(Call("POST", "/score", request.body), request.first)
        return await _read_aside(scores_of, response, request)

    async def close(self) -> None:
        """Close the connections."""
        self._check_loop()
        await self._http.aclose()

    async def send(self, call: Call, first: int = 0) -> httpx.Response:
        """Send a request until it succeeds or must not be sent again; return the 2xx response.

        `first` is the number of its first sentence, for the error.
        """
        self._check_loop()
        if self._http.is_closed:
            raise Unreachable("the client is closed")
        attempts = Attempts(self._patience_seconds)
        while True:
            outcome = await self._attempt(call)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return outcome
            pause = attempts.pause(outcome, responded=self._responded)
            if pause is None:
                raise self._error(outcome, attempts, first)
            await asyncio.sleep(pause)

    def __getstate__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled; create one in each process")

    def _check_loop(self) -> None:
        """Raise Unreachable on another event loop than the first, whose the connections are."""
        self._loop = self._loop or asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise Unreachable("the client belongs to another event loop; create one in each")

    async def _attempt(self, call: Call) -> Outcome:
        """Send a request once; return the whole response, or the error.

        The read timeout of httpx is for each piece, so a response that comes byte by byte would
        never be over it. Head and body are bounded here, each by itself: a response that waited
        long in the server's queue has as much time for its bytes as any other.
        """
        clock, limit = asyncio.get_running_loop().time, self._limit_seconds
        try:
            async with (
                asyncio.timeout(self._connect_seconds + limit) as bound,
                self._http.stream(
                    call.method, call.path, content=call.content, headers=call.headers
                ) as response,
            ):
                bound.reschedule(clock() + limit)
                await response.aread()
        except TimeoutError:
            return httpx.ReadTimeout(
                f"not complete after {limit:g} s; a slow connection needs a longer timeout_seconds"
            )
        except httpx.HTTPError as error:
            return error
        self._responded = True
        return response

    def _error(self, outcome: Outcome, attempts: Attempts, first: int) -> Exception:
        if isinstance(outcome, httpx.Response):
            return refusal(outcome.status_code, outcome.content, outcome.headers, first)
        why = str(outcome) or type(outcome).__name__
        if isinstance(outcome, NEVER_CONNECTED):
            why += "; is the server up, and are http or https, host and port its own?"
            if getproxies():
                why += f" Hosts are reached by {variables()}, of the environment."
        elif isinstance(outcome, httpx.TimeoutException):
            why = f"no response in time: {why}"
        error = Unreachable(f"{self.address}: {why}{attempts}")
        error.__cause__ = outcome
        return error


async def _read_aside(read: Callable[..., _Result], *arguments: Any) -> _Result:
    """Read a response in a thread: it has megabytes, which would delay the others.

    Python's threads take no work after the end of the main thread; it is read here then.
    """
    try:
        return await asyncio.to_thread(read, *arguments)
    except RuntimeError:
        return read(*arguments)


def _needs_certificates(base: httpx.URL) -> bool:
    """Tell whether TLS is spoken, with the server or with a proxy."""
    return base.scheme == "https" or any(p.startswith("https:") for p in getproxies().values())


def variables() -> str:
    """Return the names of the variables of proxies and certificates that are set."""
    names = dict.fromkeys((*_VARIABLES, *map(str.lower, _VARIABLES)))
    return ", ".join(name for name in names if os.environ.get(name))


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise CannotSend(f"{shown(url)} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query:
        raise CannotSend(
            f"{shown(url)} is not the URL of a server; expected one such as http://localhost:8000"
        )
    return parsed


def query_of(model: str | None) -> str:
    """Return the query of a path that names one of the server's models."""
    return "" if model is None else f"?model={quote(model, safe='')}"
