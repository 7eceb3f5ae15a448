"""Request headers: values, lengths, timeouts, ids."""

import re

import pytest

from elmo_serve.errors import NotAcceptable
from elmo_serve.http import headers
from tests.support.http_messages import http_scope


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


def test_accept_headers_are_bounded_together() -> None:
    half = b"x" * (headers.MAX_ACCEPT_CHARACTERS // 2)
    scope = {"headers": [(b"accept", half), (b"accept", half)]}

    assert headers.accept(scope) == (half + b"," + half).decode()
    scope["headers"].append((b"accept", b"y"))
    with pytest.raises(NotAcceptable):
        headers.accept(scope)


def test_the_first_sane_request_id_is_taken_or_a_new_one_made() -> None:
    scope = {"headers": [(b"x-request-id", b"a b"), (b"x-request-id", b"a-1:B_2.c")]}

    assert headers.request_id(scope) == "a-1:B_2.c"
    assert headers.request_id({"headers": [(b"x-request-id", b"0" * 128)]}) == "0" * 128
    scope["headers"].pop()
    made = {headers.request_id(scope) for _ in range(10)}
    assert len(made) == 10
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)
