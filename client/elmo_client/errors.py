"""The errors of the client, as one tree.

ElmoError
├── CannotSend         an argument or a sentence that the server would refuse; nothing was sent
├── Unreachable        no response: the connection failed, or the time ran out
├── BadAnswer          a response that is not one of elmo-serve
│   └── ModelChanged       another model responded than the one that GET /info described
└── Refused            the server responded with an error; `problem` is its document
    ├── RequestRefused     4xx: the same request would fail again
    │   ├── Unauthorized       401
    │   ├── NotFound           404
    │   ├── TooLarge           413
    │   └── InvalidRequest     400, 406, 415, 422
    ├── TryLater           429, 503, for longer than the client's patience
    └── ServerFailed       408, 500, 504 and other 5xx
"""

# ruff: noqa: N818 - the names say which response they stand for

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Characters of a response that is not a problem document, such as the page of a proxy.
_SHOWN_CHARACTERS = 200

_QUOTED_CHARACTERS = 64


def shown(value: object) -> str:
    """Return a user's value for a message: quoted, on one line, cut after 64 characters."""
    # Cut before it is quoted, because escaping a string of megabytes takes long.
    text = repr(value[: _QUOTED_CHARACTERS + 1] if isinstance(value, str) else value)
    if len(text) <= _QUOTED_CHARACTERS:
        return text
    return f"{text[:_QUOTED_CHARACTERS]}...{'' if text[-1].isalnum() else text[-1]}"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault in a request: a JSON pointer such as /sentences/0/3, and its description."""

    pointer: str
    detail: str


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem document (RFC 9457) of an error response; `instance` is the request id."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[FieldError, ...] = ()


class ElmoError(Exception):
    """Base class of the errors of this package."""


class CannotSend(ElmoError, ValueError):
    """An argument or a sentence that the server would refuse. Nothing was sent."""


class Unreachable(ElmoError):
    """No response came from the server. `__cause__` is the error of httpx, if there is one."""


class BadAnswer(ElmoError):
    """A response that is not one of elmo-serve: of a proxy, for example, or of another program."""


class ModelChanged(BadAnswer):
    """The model of the server changed during a call. The next call uses the new one."""


class Refused(ElmoError):
    """The server responded with an error. `first` is the number of the request's first sentence.

    A pointer such as /sentences/2 in `problem.errors` counts from that sentence.
    """

    def __init__(self, problem: Problem, first: int = 0) -> None:
        place = f" (in the request that begins with sentence {first})" if first else ""
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}{place}")
        self.problem = problem
        self.first = first

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.first), self.__dict__


class RequestRefused(Refused):
    """4xx: the same request would fail again."""


class Unauthorized(RequestRefused):
    """401: the API key is missing or wrong."""


class NotFound(RequestRefused):
    """404: there is no such task or route."""


class TooLarge(RequestRefused):
    """413: over a limit, which the detail names."""


class InvalidRequest(RequestRefused):
    """400, 406, 415 or 422."""


class TryLater(Refused):
    """429 or 503, for longer than `patience_seconds`."""


class ServerFailed(Refused):
    """5xx other than 503, or 408: the time was over before the body had arrived.

    Not sent again where the input itself may be the cause.
    """


_BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: Unauthorized,
    404: NotFound,
    406: InvalidRequest,
    408: ServerFailed,
    413: TooLarge,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TryLater,
    503: TryLater,
}


def refusal(status: int, body: bytes, headers: Mapping[str, str], first: int = 0) -> ElmoError:
    """Return the error for a response other than 2xx."""
    if status < 400:
        return BadAnswer(f"the server responded {status}, which elmo-serve never does")
    usual = RequestRefused if status < 500 else ServerFailed
    return _BY_STATUS.get(status, usual)(_problem(status, body, headers), first)


def _problem(status: int, body: bytes, headers: Mapping[str, str]) -> Problem:
    request_id = headers.get("x-request-id", "")
    try:
        found = json.loads(body)
        faults = found.get("errors") or ()
        return Problem(
            type=str(found["type"]),
            title=str(found["title"]),
            status=status,
            detail=str(found["detail"]),
            instance=str(found.get("instance", request_id)),
            errors=tuple(FieldError(str(f["pointer"]), str(f["detail"])) for f in faults),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        # Not a problem document: the page of a proxy, for example.
        text = " ".join(body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").split())
        return Problem(
            "about:blank", "Error", status, text[:_SHOWN_CHARACTERS] or "no text", request_id
        )
