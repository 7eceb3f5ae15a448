"""The errors of the HTTP API, as one tree. Each class has a status, a title and a type.

`http/error_responses.py` turns them into responses and translates all other exceptions. The
client has a smaller tree of its own, `elmo_client.errors`; docs/api.md sets the two side
by side.

ServiceError
├── RequestError               the request is at fault: sent again unchanged, it fails again
│   ├── MalformedRequest       400
│   ├── MalformedBody          400
│   ├── Unauthorized           401
│   ├── Forbidden              403
│   ├── NotFound
│   │   ├── UnknownModel       404
│   │   ├── UnknownTask        404
│   │   ├── UnknownRoute       404
│   │   └── NoIndex            404
│   ├── MethodNotAllowed       405
│   ├── NotAcceptable          406
│   ├── RequestTimeout         408
│   ├── Conflict               409
│   ├── TooLarge               413
│   ├── UnsupportedMediaType   415
│   └── InvalidRequest         422
├── TryLater                   the request is valid: Retry-After says when to send it again
│   ├── ClientOverShare        429
│   ├── Overloaded             503
│   └── Unavailable            503
└── ServerError                the server could not answer
    ├── SentenceFailed         500
    ├── InternalError          500
    └── DeadlineExceeded       504
"""

# ruff: noqa: N818 - the classes have the names that HTTP gives these statuses

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

TYPE_PREFIX = "urn:elmo-serve:error:"
"""A problem type is this prefix and a slug. It is a name, the same on every server; no link."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request body; `pointer` is a JSON pointer (RFC 6901), see `pointer()`."""

    pointer: str
    detail: str


class ServiceError(Exception):
    """The root of the tree.

    `detail` is sent to the client: it names the wrong value and the allowed ones. `errors` point
    into the request body. `headers` are added to the response, and to the ones that the class has
    itself. A class states its `status` and `title`; its `slug` is its name, such as `too-large`.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = ""
    slug: ClassVar[str] = "service"
    own_headers: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, status: int | None = None, title: str = "") -> None:
        cls.status = cls.status if status is None else status
        cls.title = title
        cls.slug = re.sub(r"\B(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

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
        self.headers = {**self.own_headers, **(headers or {})}

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross processes. The default way of pickling loses keyword-only arguments, and a
        # process whose message cannot be unpickled counts as dead.
        return type(self).__new__, (type(self), *self.args), self.__dict__

    @classmethod
    def uri(cls) -> str:
        """Return the problem type of RFC 9457, a URI."""
        return TYPE_PREFIX + cls.slug


class RequestError(ServiceError, status=400): ...


class MalformedRequest(RequestError, title="The request is not HTTP"): ...


class MalformedBody(RequestError, title="The body is not JSON"): ...


class Unauthorized(RequestError, status=401, title="An API key is needed"):
    own_headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": "Bearer"}  # RFC 9110, 11.6.1


class Forbidden(RequestError, status=403, title="Not for pages of other origins"): ...


class NotFound(RequestError, status=404): ...


class UnknownModel(NotFound, title="Unknown model"): ...


class UnknownTask(NotFound, title="Unknown task"): ...


class UnknownRoute(NotFound, title="Unknown route"): ...


class NoIndex(NotFound, title="The model has no index"): ...


class MethodNotAllowed(RequestError, status=405, title="Method not allowed"):
    """`headers` must hold `Allow`, as RFC 9110, 15.5.6 demands."""


class NotAcceptable(RequestError, status=406, title="No acceptable media type"): ...


class RequestTimeout(RequestError, status=408, title="The request did not come in time"):
    """The head or the body did not come in time. The connection closes."""


class Conflict(RequestError, status=409, title="Refused in the server's present state"): ...


class TooLarge(RequestError, status=413, title="Over a limit"): ...


class UnsupportedMediaType(RequestError, status=415, title="Unsupported media type"): ...


class InvalidRequest(RequestError, status=422, title="The request breaks the schema"):
    @classmethod
    def of(cls, *faults: FieldError) -> Self:
        """Return the error for some faults of a body; its detail is the first one."""
        first = faults[0]
        return cls(f"{first.pointer or 'the body'}: {first.detail}", errors=faults)


class TryLater(ServiceError, status=503):
    """`retry_after` is in seconds; the header has it rounded up, and at least 1."""

    def __init__(self, detail: str, *, retry_after: float) -> None:
        self.retry_after = max(1, math.ceil(retry_after))
        super().__init__(detail, headers={"Retry-After": str(self.retry_after)})


class ClientOverShare(TryLater, status=429, title="Over this client's share"): ...


class Overloaded(TryLater, title="Overloaded"): ...


class Unavailable(TryLater, title="Not ready to answer"):
    """The server is loading or draining, has no worker, or lacks memory or descriptors."""


class ServerError(ServiceError, status=500): ...


class SentenceFailed(ServerError, title="A sentence made the model fail"):
    """Sentence `index` of a request makes the model fail, also alone; `errors` point to it.

    The engine knows no body: it takes the pointer to be that of `sentences` in `POST /embed`. A
    route with another body gives the pointer by `at`.
    """

    def __init__(self, detail: str, index: int = 0) -> None:
        super().__init__(detail, errors=[FieldError(pointer("sentences", index), detail)])
        self.index = index

    def at(self, place: str) -> Self:
        """Return this error with another pointer."""
        self.errors = (FieldError(place, self.detail),)
        return self


class InternalError(ServerError, title="Internal error"):
    """An unexpected exception. The text is constant; the cause is in the log alone."""

    def __init__(self) -> None:
        super().__init__("An error inside the server; its log has it under this request id.")


class DeadlineExceeded(ServerError, status=504, title="The deadline passed"): ...


def pointer(*parts: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a place: ("sentences", 0, 3) -> "/sentences/0/3"."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
