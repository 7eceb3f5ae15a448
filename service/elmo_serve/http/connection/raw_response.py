"""An error as the bytes of a whole HTTP/1.1 response, for requests that no application answers."""

from email.utils import formatdate
from http import HTTPStatus

import orjson

from elmo_serve.errors import ServiceError
from elmo_serve.http.errors import problem_details as problems


def raw_response(error: ServiceError, request_id: str, *, closes: bool = False) -> bytes:
    """Return head and body. `closes`: tell the client that the connection ends with it."""
    body = orjson.dumps(problems.problem(error, request_id))
    fields = {
        "date": formatdate(usegmt=True),
        **{name.lower(): value for name, value in error.headers.items()},
        "content-length": len(body),
        "content-type": problems.MEDIA_TYPE,
        "x-request-id": request_id,
    }
    if closes:
        fields["connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    phrase = HTTPStatus(error.status).phrase
    return f"HTTP/1.1 {error.status} {phrase}\r\n{lines}\r\n".encode() + body
