"""Request headers: values, lengths, timeouts, ids."""

import re

import pytest

from elmo_serve.errors import InvalidRequest, NotAcceptable, UnsupportedMediaType
from elmo_serve.http import headers
from tests.support.asgi import http_scope


def test_the_first_value_and_every_value_come_without_white_space() -> None:
    scope = {"headers": [(b"a", b" 1\t"), (b"b", b"x"), (b"a", b"\xe9 2 ")]}

    assert headers.first(scope, b"a") == "1"
    assert headers.every(scope, b"a") == ("1", "\xe9 2")
    assert headers.first(scope, b"c") is None
    assert headers.every(scope, b"c") == ()


@pytest.mark.parametrize(
    ("sent", "length"),
    [
        ("0", 0),
        ("12", 12),
        ("00", 0),
        ("00000000000000010000", 10_000),
        ("9" * 5_000, 10**18 - 1),
        ("-1", None),
        ("1e3", None),
        ("", None),
    ],
)
def test_the_announced_length_is_a_number_or_none(sent: str, length: int | None) -> None:
    assert headers.content_length(http_scope(content_length=sent)) == length


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        ("http://a.example:80/info", "/info", "a.example:80"),
        ("HTTPS://a/b/c://d", "/b/c://d", "a"),
        ("http://a", "/", "a"),
        ("/info", "/info", "here"),
        ("/http://a/info", "/http://a/info", "here"),
        ("ftp://a/info", "ftp://a/info", "here"),
        ("*", "*", "here"),
    ],
)
def test_the_authority_of_an_absolute_target_counts_as_host(
    target: str, path: str, host: str
) -> None:
    scope = http_scope(target, host="here", accept="b")

    headers.to_origin_form(scope)

    assert (scope["path"], headers.first(scope, b"host")) == (path, host)
    assert headers.first(scope, b"accept") == "b"


@pytest.mark.parametrize(
    ("sent", "is_framed_twice"),
    [
        ({}, False),
        ({"content_length": "1"}, False),
        ({"transfer_encoding": "chunked"}, False),
        ({"content_length": "0", "transfer_encoding": "chunked"}, True),
    ],
)
def test_two_framings_of_a_body_are_found(sent: dict[str, str], is_framed_twice: bool) -> None:
    assert headers.is_framed_twice(http_scope(**sent)) is is_framed_twice


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [("1", 1), (" .5 ", 0.5), ("5.", 5), ("1e-3", 0.001), ("2E+1", 20), ("61", 60), ("1e300", 60)],
)
def test_a_timeout_is_a_number_of_seconds_up_to_the_limit(sent: str, seconds: float) -> None:
    assert headers.timeout_seconds(http_scope(x_request_timeout=sent), 60) == seconds
    assert headers.timeout_seconds(http_scope(), 60) == 60


@pytest.mark.parametrize("sent", ["0", "-1", "nan", "inf", "1e999", "1_0", "1 2", "", "١"])
def test_any_other_timeout_is_refused(sent: str) -> None:
    scope = {"headers": [(b"x-request-timeout", sent.encode())]}

    with pytest.raises(InvalidRequest, match="a finite number of seconds above 0"):
        headers.timeout_seconds(scope, 60)


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"content_type": "application/json"},
        {"content_type": "Application/JSON ; charset=utf-8", "content_encoding": "identity"},
    ],
)
def test_uncompressed_json_is_accepted(sent: dict[str, str]) -> None:
    headers.media_type(http_scope(**sent))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"content_type": "text/plain"}, "Content-Type is 'text/plain'"),
        ({"content_type": ""}, "Content-Type is ''"),
        ({"content_encoding": "gzip"}, "Content-Encoding is 'gzip'"),
        ({"content_encoding": "identity, gzip"}, "Content-Encoding"),
    ],
)
def test_another_type_or_coding_is_refused(sent: dict[str, str], message: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=message):
        headers.media_type(http_scope(**sent))


def test_accept_headers_are_bounded_together() -> None:
    half = b"x" * (headers.MAX_ACCEPT_CHARACTERS // 2)
    scope = {"headers": [(b"accept", half), (b"accept", half)]}

    assert headers.accept(scope) == (half.decode(), half.decode())
    scope["headers"].append((b"accept", b"y"))
    with pytest.raises(NotAcceptable):
        headers.accept(scope)


def test_the_first_sane_request_id_is_taken_or_a_new_one_made() -> None:
    scope = {"headers": [(b"x-request-id", b"a b"), (b"x-request-id", b"a-1:B_2.c")]}

    assert headers.request_id(scope) == "a-1:B_2.c"
    scope["headers"].pop()
    made = {headers.request_id(scope) for _ in range(10)}
    assert len(made) == 10
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)
