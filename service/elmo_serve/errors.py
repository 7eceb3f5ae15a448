"""Every error that a client can meet, as one tree; each knows its status, title and type.

ServiceError
├── RequestError               the request is at fault: sent again unchanged, it fails again
│   ├── MalformedRequest       400
│   ├── MalformedBody          400
│   ├── Unauthorized           401
│   ├── NotFound               404
│   │   ├── UnknownTask
│   │   └── UnknownRoute
│   ├── MethodNotAllowed       405
│   ├── NotAcceptable          406
│   ├── RequestTimeout         408
│   ├── Conflict               409
│   ├── TooLarge               413
│   ├── UnsupportedMediaType   415
│   ├── InvalidRequest         422
│   └── HeadTooLarge           431
├── TryLater                   the request is sound: Retry-After says when to send it again
│   ├── ClientOverShare        429
│   ├── Overloaded             503
│   └── Unavailable            503
└── ServerError                the server could not answer
    ├── SentenceFailed         500
    ├── InternalError          500
    └── DeadlineExceeded       504
"""

# ruff: noqa: N818 - the classes carry the names that HTTP gives these answers

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

TYPE_PREFIX = "urn:elmo-serve:error:"
"""A problem type is this and the slug: one name wherever the service runs, not a link."""

SHOWN_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request body: `pointer` is a JSON pointer (RFC 6901), see `pointer()`."""

    pointer: str
    detail: str


class ServiceError(Exception):
    """The root. `detail` names the bad value and the good ones and is sent to the client.

    `headers` are added to the response; `errors` point into the request body.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "The server could not answer"
    slug: ClassVar[str] = "service"

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = dict(headers or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt from its attributes: a worker process whose error cannot be unpickled looks dead
        # to the parent, and keyword-only arguments are what the default way forgets.
        return _restore, (type(self), self.args, self.__dict__)

    @classmethod
    def uri(cls) -> str:
        """The problem type of RFC 9457, a URI."""
        return TYPE_PREFIX + cls.slug


class RequestError(ServiceError):
    status = 400
    title = "The request cannot be answered"
    slug = "request"


class MalformedRequest(RequestError):
    status = 400
    title = "The request is not HTTP"
    slug = "malformed-request"


class MalformedBody(RequestError):
    status = 400
    title = "The body is not JSON"
    slug = "malformed-body"


class Unauthorized(RequestError):
    status = 401
    title = "An API key is needed"
    slug = "unauthorized"

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # RFC 9110, 11.6.1: a 401 says how to authenticate.
        super().__init__(
            detail, errors=errors, headers={"WWW-Authenticate": "Bearer", **(headers or {})}
        )


class NotFound(RequestError):
    status = 404
    title = "Not found"
    slug = "not-found"


class UnknownTask(NotFound):
    title = "Unknown task"
    slug = "unknown-task"


class UnknownRoute(NotFound):
    title = "Unknown route"
    slug = "unknown-route"


class MethodNotAllowed(RequestError):
    """`headers` must hold `Allow`, as RFC 9110, 15.5.6 demands."""

    status = 405
    title = "Method not allowed"
    slug = "method-not-allowed"


class NotAcceptable(RequestError):
    status = 406
    title = "No acceptable media type"
    slug = "not-acceptable"


class RequestTimeout(RequestError):
    """Of the head; a body that does not come is a DeadlineExceeded."""

    status = 408
    title = "The request did not come in time"
    slug = "request-timeout"


class Conflict(RequestError):
    status = 409
    title = "Refused in the server's present state"
    slug = "conflict"


class TooLarge(RequestError):
    status = 413
    title = "Over a limit"
    slug = "too-large"


class UnsupportedMediaType(RequestError):
    status = 415
    title = "Unsupported media type"
    slug = "unsupported-media-type"


class InvalidRequest(RequestError):
    status = 422
    title = "The request breaks the schema"
    slug = "invalid-request"


class HeadTooLarge(RequestError):
    status = 431
    title = "The head of the request is too large"
    slug = "head-too-large"


class TryLater(ServiceError):
    """`retry_after` is in seconds; the header carries it rounded up, and at least 1."""

    status = 503
    title = "Try again later"
    slug = "try-later"

    def __init__(
        self,
        detail: str,
        *,
        retry_after: float,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.retry_after = max(1, math.ceil(retry_after))
        super().__init__(
            detail, errors=errors, headers={"Retry-After": str(self.retry_after), **(headers or {})}
        )


class ClientOverShare(TryLater):
    status = 429
    title = "Over this client's share of the queue"
    slug = "client-over-share"


class Overloaded(TryLater):
    status = 503
    title = "The queue is full"
    slug = "overloaded"


class Unavailable(TryLater):
    """Loading, draining, or no worker left."""

    status = 503
    title = "Not ready to answer"
    slug = "unavailable"


class ServerError(ServiceError):
    status = 500
    title = "The server could not answer"
    slug = "server"


class SentenceFailed(ServerError):
    """A sentence made the model fail on its own; `errors` point to it."""

    status = 500
    title = "A sentence made the model fail"
    slug = "sentence-failed"


class InternalError(ServerError):
    """The text is constant: what went wrong inside is for the log alone."""

    status = 500
    title = "Internal error"
    slug = "internal"

    def __init__(self) -> None:
        super().__init__("An error inside the server; its log has it under this request id.")


class DeadlineExceeded(ServerError):
    status = 504
    title = "The deadline passed"
    slug = "deadline-exceeded"


ERRORS: tuple[type[ServiceError], ...] = (
    MalformedRequest,
    MalformedBody,
    Unauthorized,
    UnknownTask,
    UnknownRoute,
    MethodNotAllowed,
    NotAcceptable,
    RequestTimeout,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    InvalidRequest,
    ClientOverShare,
    HeadTooLarge,
    SentenceFailed,
    InternalError,
    Overloaded,
    Unavailable,
    DeadlineExceeded,
)
"""The leaves, which are what clients see; in the order of their status."""


def problem(error: ServiceError, instance: str) -> dict[str, Any]:
    """Return the members of RFC 9457; `errors` only where there are any. `instance`: request id."""
    members: dict[str, Any] = {
        "type": error.uri(),
        "title": error.title,
        "status": error.status,
        "detail": _encodable(error.detail),
        "instance": _encodable(instance),
    }
    if error.errors:
        members["errors"] = [
            {"pointer": _encodable(fault.pointer), "detail": _encodable(fault.detail)}
            for fault in error.errors
        ]
    return members


def pointer(*parts: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a place: ("sentences", 0, 3) -> "/sentences/0/3"."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def shown(value: object) -> str:
    """Return a client's value as a message may repeat it: quoted, on one line, and short."""
    # Cut before it is quoted: a string of megabytes is not escaped for the sake of 64 characters.
    head = value[: SHOWN_CHARACTERS + 1] if isinstance(value, str) else value
    text = repr(head)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _encodable(text: str) -> str:
    # JSON can carry a lone surrogate into a message ("\ud800"), UTF-8 cannot carry it out.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _restore(
    cls: type[ServiceError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> ServiceError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error
