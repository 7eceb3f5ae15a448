"""One server over HTTP: sends requests, retries them, and keeps the response of GET /info."""

import asyncio
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from elmo_client.errors import (
    BadAnswer,
    CannotSend,
    ModelChanged,
    NotFound,
    TooLarge,
    Unreachable,
    refusal,
)
from elmo_client.results import (
    Cosines,
    EmbeddedText,
    Neighbours,
    Scores,
    Substitute,
    Task,
    TokenizedText,
    Vectors,
)
from elmo_client.transport.request_batches import EmbedRequest
from elmo_client.transport.requests import Side, json_bytes, similarity_body
from elmo_client.transport.responses import (
    MEDIA_TYPE,
    cosines_of,
    info_of,
    json_of,
    neighbours_of,
    scores_of,
    substitutes_of,
    task_of,
    texts_of,
    tokens_of,
    vectors_of,
)
from elmo_client.transport.retry import Attempts, Outcome

_Result = TypeVar("_Result")

_KEY = re.compile(r"[!-~]+")
_UNKNOWN_MODEL = "urn:elmo-serve:error:unknown-model"
_CONNECT_SECONDS = 10.0

# Seconds that the client waits longer than the server, so that the server's own 504 arrives.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Call:
    """One HTTP request; `repeatable` tells whether the server may process it twice."""

    method: str
    path: str
    content: bytes | None = None
    accept: str = "application/json"
    repeatable: bool = True
    content_type: str = "application/json"

    @property
    def headers(self) -> dict[str, str]:
        content = {} if self.content is None else {"Content-Type": self.content_type}
        return {"Accept": self.accept, **content}


class Session:
    """The connections to one server; belongs to one event loop."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None,
        timeout_seconds: float,
        patience_seconds: float,
        in_flight: int,
        model: str | None = None,
        grace_seconds: float = _GRACE_SECONDS,
        connect_seconds: float = _CONNECT_SECONDS,
    ) -> None:
        """Check the arguments; see `Client`. Raises CannotSend."""
        if in_flight < 1:
            raise CannotSend(f"in_flight is {in_flight}; expected at least 1")
        if not 0 < timeout_seconds < math.inf:
            raise CannotSend(f"timeout_seconds is {timeout_seconds}; expected above 0 and finite")
        # Checked here, because httpx shows the key in the error of a header that it refuses.
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise CannotSend("api_key is empty or has characters other than visible ASCII")
        headers = {"Accept-Encoding": "identity", "X-Request-Timeout": f"{timeout_seconds:g}"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        base = _checked(url)
        self.address = str(base.copy_with(username=None, password=None)).rstrip("/")
        self.model = model
        self._query = "" if model is None else f"?model={quote(model, safe='')}"
        self._patience_seconds = patience_seconds
        self._limit_seconds = timeout_seconds + grace_seconds
        self._connect_seconds = connect_seconds
        self._info: dict[str, Any] | None = None
        self._responded = False
        self._http = httpx.AsyncClient(
            base_url=base,
            headers=headers,
            timeout=httpx.Timeout(timeout_seconds + grace_seconds, connect=connect_seconds),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=in_flight),
        )

    async def info(self) -> dict[str, Any]:
        """Return the response of GET /info, from the second call on without asking."""
        if self._info is None:
            try:
                response = await self._send(_Call("GET", "/info" + self._query))
            except NotFound as error:
                if error.problem.type == _UNKNOWN_MODEL:
                    raise
                raise BadAnswer(
                    f"{self.address}/info is not found: elmo-serve does not run there. Give the "
                    "address of the server without a path, such as http://localhost:8000"
                ) from error
            self._info = info_of(response)
        return self._info

    async def embed(self, request: EmbedRequest, revision: str) -> list[Vectors]:
        """Return the arrays for one request, computed by the model of this `revision`."""
        return await self._embed(vectors_of, request, revision)

    async def embed_text(self, request: EmbedRequest, revision: str) -> list[EmbeddedText]:
        """Likewise for a request with text."""
        return await self._embed(texts_of, request, revision)

    async def _embed(
        self,
        read: Callable[[httpx.Response, EmbedRequest, str], _Result],
        request: EmbedRequest,
        revision: str,
    ) -> _Result:
        call = _Call("POST", "/embed", request.body, MEDIA_TYPE)
        try:
            response = await self._send(call, request.first)
            # Responses have megabytes: parsed on the event loop they would delay the others.
            return await asyncio.to_thread(read, response, request, revision)
        except (ModelChanged, TooLarge):
            self._info = None  # the model or the limits changed: the next call asks again
            raise

    async def tokenize(self, request: EmbedRequest, _revision: str) -> list[TokenizedText]:
        """Return the tokens of the texts of a request; every revision splits them alike."""
        response = await self._send(_Call("POST", "/tokenize", request.body), request.first)
        return tokens_of(json_of(response), request.texts)

    async def similarity(
        self, pairs: Sequence[tuple[Side, Side]], tokenizer: str | None, centred: bool
    ) -> Cosines:
        """Return the cosines of some pairs."""
        body = similarity_body(pairs, tokenizer, centred, self.model)
        return cosines_of(json_of(await self._send(_Call("POST", "/similarity", body))), len(pairs))

    async def neighbours(self, body: bytes) -> Neighbours:
        """Return the neighbours that a body of POST /neighbours asks for."""
        return neighbours_of(json_of(await self._send(_Call("POST", "/neighbours", body))))

    async def score(self, request: EmbedRequest, _revision: str) -> list[Scores]:
        """Return the scores of the sentences or texts of a request."""
        response = await self._send(_Call("POST", "/score", request.body), request.first)
        return await asyncio.to_thread(lambda: scores_of(json_of(response), request))

    async def substitutes(self, body: bytes) -> list[list[Substitute]]:
        """Return the substitutes that a body of POST /substitutes asks for."""
        return substitutes_of(json_of(await self._send(_Call("POST", "/substitutes", body))))

    async def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        found = json_of(await self._send(_Call("GET", "/tasks" + self._query)))
        return tuple(task_of(entry) for entry in found.get("tasks", ()))

    async def put_task(
        self,
        name: str,
        weights: Sequence[float],
        gamma: float,
        layer_norm: bool,
        description: str,
    ) -> Task:
        """Register a task and return it."""
        task = Task(name, tuple(weights), gamma, layer_norm, description)
        body = json_bytes(asdict(task), f"task {name!r:.60}")
        call = _Call("PUT", _path(name) + self._query, body)
        return task_of(json_of(await self._send(call)))

    async def delete_task(self, name: str) -> None:
        """Delete a task."""
        # A second DELETE would be 404: it is not repeated if the first may have been processed.
        await self._send(_Call("DELETE", _path(name) + self._query, repeatable=False))

    async def fit(self, name: str, body: bytes, model: str | None) -> dict[str, Any]:
        """Queue a fit and return its job; `body` is NDJSON."""
        model = model or self.model
        query = "" if model is None else f"?model={quote(model, safe='')}"
        # A second POST would be 409: it is not repeated if the first may have been processed.
        call = _Call(
            "POST",
            f"{_path(name)}/fit{query}",
            body,
            repeatable=False,
            content_type="application/x-ndjson",
        )
        return json_of(await self._send(call))

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        return json_of(await self._send(_Call("GET", _job_path(job_id))))

    async def cancel_job(self, job_id: str) -> dict[str, Any]:
        """Cancel a job and return it."""
        return json_of(await self._send(_Call("DELETE", _job_path(job_id))))

    async def head(self, job_id: str) -> bytes:
        """Return the head of a job, safetensors."""
        call = _Call("GET", f"{_job_path(job_id)}/head", accept=MEDIA_TYPE)
        return (await self._send(call)).content

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, call: _Call, first: int = 0) -> httpx.Response:
        """Send a request until it succeeds or must not be sent again; return the 2xx response.

        `first` is the number of its first sentence, for the error.
        """
        attempts = Attempts(self._patience_seconds)
        while True:
            outcome = await self._attempt(call)
            if isinstance(outcome, httpx.Response) and outcome.is_success:
                return outcome
            pause = attempts.pause(outcome, repeatable=call.repeatable, responded=self._responded)
            if pause is None:
                raise self._error(outcome, attempts, first)
            await asyncio.sleep(pause)

    async def _attempt(self, call: _Call) -> Outcome:
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
        if isinstance(outcome, httpx.TimeoutException):
            why = f"no response in time: {why}"
        error = Unreachable(f"{self.address}: {why}{attempts}")
        error.__cause__ = outcome
        return error


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise CannotSend(f"{url!r:.80} is not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query:
        raise CannotSend(
            f"{url!r:.80} is not the URL of a server; expected one such as http://localhost:8000"
        )
    return parsed


def _path(name: str) -> str:
    return f"/tasks/{quote(name, safe='')}"


def _job_path(job_id: str) -> str:
    return f"/jobs/{quote(job_id, safe='')}"
