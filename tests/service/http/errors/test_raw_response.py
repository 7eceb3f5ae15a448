"""An error as bytes is the response that any HTTP client reads."""

import h11
import orjson
import pytest

from elmo_serve.errors import RequestTimeout, ServiceError, Unavailable
from elmo_serve.http.error_responses import raw_response


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [(RequestTimeout("late \N{SNOWMAN}"), None), (Unavailable("busy", retry_after=7), b"7")],
)
def test_a_client_reads_status_headers_and_the_whole_body(
    error: ServiceError, retry_after: bytes | None
) -> None:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(raw_response(error, "the-id"))

    head, data, end = client.next_event(), client.next_event(), client.next_event()

    assert isinstance(head, h11.Response) and isinstance(data, h11.Data)
    assert isinstance(end, h11.EndOfMessage)
    assert head.status_code == error.status
    fields = dict(head.headers)
    assert fields[b"content-type"] == b"application/problem+json"
    assert fields[b"x-request-id"] == b"the-id"
    assert fields.get(b"retry-after") == retry_after
    assert orjson.loads(bytes(data.data))["detail"] == error.detail
    assert client.their_state is h11.MUST_CLOSE
