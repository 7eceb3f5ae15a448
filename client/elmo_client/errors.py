"""What can go wrong for a client, as one tree.

ElmoError
├── CannotSend         found before anything was sent: a sentence that the server could never take
├── Unreachable        no answer came: the connection, or the time
├── BadAnswer          an answer came that is none of this service's
│   └── ModelChanged       or that of another model than the one that was asked
└── Refused            the server said no; `problem` is its document
    ├── RequestRefused     4xx: sent again unchanged, it fails again
    │   ├── Unauthorized       401
    │   ├── NotFound           404
    │   ├── TooLarge           413
    │   └── InvalidRequest     400, 406, 415, 422
    ├── TryLater           429, 503: and it did not get better within the client's patience
    └── ServerFailed       500, 504 and other 5xx
"""

# ruff: noqa: N818 - named like the answers they stand for

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmo_serve.errors import FieldError

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """The document of RFC 9457 that an error came with; `instance` is the request id."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[FieldError, ...] = ()


class ElmoError(Exception):
    """The root."""


class CannotSend(ElmoError, ValueError):
    """A sentence or an option that no server, or not this one, could take."""


class Unreachable(ElmoError):
    """No answer came. `__cause__` is what httpx said, where it said something."""


class BadAnswer(ElmoError):
    """An answer came that is none of this service's: a proxy's, or that of another program."""


class ModelChanged(BadAnswer):
    """The server serves another model than when it was first asked; the next call asks anew."""


class Refused(ElmoError):
    """The server answered with a problem. `first` is the number of the request's first sentence.

    A pointer such as /sentences/2 in `problem.errors` counts from there.
    """

    def __init__(self, problem: Problem, first: int = 0) -> None:
        place = f" (in the request that begins with sentence {first})" if first else ""
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}{place}")
        self.problem = problem
        self.first = first

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.first)


class RequestRefused(Refused):
    """4xx."""


class Unauthorized(RequestRefused):
    """401: the API key is missing or wrong."""


class NotFound(RequestRefused):
    """404: no such task, or no such route."""


class TooLarge(RequestRefused):
    """413: over a limit, which the detail names."""


class InvalidRequest(RequestRefused):
    """400, 406, 415 or 422."""


class TryLater(Refused):
    """429 or 503, for longer than the client's patience."""


class ServerFailed(Refused):
    """5xx but 503: not sent again, since the input itself may be the cause."""


_BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: Unauthorized,
    404: NotFound,
    406: InvalidRequest,
    413: TooLarge,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TryLater,
    503: TryLater,
}


def refusal(status: int, body: bytes, headers: Mapping[str, str], first: int = 0) -> ElmoError:
    """Return the error that an answer other than 2xx is."""
    if status < 400:
        return BadAnswer(f"the server answered {status}, which this service never does")
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
        # A proxy's page: no problem document at all.
        text = " ".join(body[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").split())
        return Problem(
            "about:blank", "An error", status, text[:_SHOWN_CHARACTERS] or "no text", request_id
        )
