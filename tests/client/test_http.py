"""Requests and responses: retries, refusals, other programs, dead addresses. Both clients."""

from __future__ import annotations

import socket
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_client import (
    BadAnswer,
    CannotSend,
    ModelChanged,
    ServerFailed,
    TryLater,
    Unreachable,
)
from elmo_client.batches import EmbedRequest
from elmo_client.http import Session
from elmo_client.responses import MEDIA_TYPE, vectors_of
from tests.support.scripted_server import (
    ScriptedServer,
    after,
    break_off,
    correct,
    hang_up,
    refuse,
    respond,
    trickle,
)


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_refused_request_is_sent_again_after_retry_after(
    client_class: Any, scripted: ScriptedServer
) -> None:
    scripted.script = [refuse(503, Retry_After="1")]

    with client_class(scripted.url) as client:
        (vectors,) = client.embed([["7"]])

    assert vectors[0, 0, 0] == 7
    (first, _), (second, _) = scripted.requests
    assert second - first >= 1.0  # a pause is never shorter; how much longer is not measured


def test_responses_out_of_order_are_returned_in_order(
    client_class: Any, scripted: ScriptedServer
) -> None:
    gate = threading.Event()

    def last(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        correct(handler, body)
        gate.set()

    scripted.script = [after(gate), correct, last]

    with client_class(scripted.url, in_flight=3) as client:
        found = client.embed([[str(number)] for number in range(9)])

    assert [array[0, 0, 0] for array in found] == list(range(9))


def test_a_stream_sends_no_more_than_its_reader_needs(
    client_class: Any, scripted: ScriptedServer
) -> None:
    with client_class(scripted.url, in_flight=2) as client:
        stream = client.stream([str(number)] for number in range(10_000))
        first = [int(next(stream)[0, 0, 0]) for _ in range(4)]
        stream.close()

    assert first == [0, 1, 2, 3]
    assert len(scripted.requests) <= 2 + 2 + 1


def test_a_lost_connection_is_tried_again(client_class: Any, scripted: ScriptedServer) -> None:
    nonsense = refuse(503, Retry_After="nonsense")
    scripted.script = [hang_up, break_off, refuse(503), nonsense, hang_up]
    sentences = [[str(number)] for number in range(9)]

    with client_class(scripted.url, in_flight=3) as client:
        found = client.embed(sentences)

    assert [array[0, 0, 0] for array in found] == list(range(9))
    # Two sentences a request: five requests, and five failed attempts.
    assert len(scripted.requests) == 5 + 5


def test_an_error_names_the_first_sentence_of_its_request(
    client_class: Any, scripted: ScriptedServer
) -> None:
    scripted.script = [correct, correct, refuse(500)]

    with client_class(scripted.url, in_flight=1) as client, pytest.raises(ServerFailed) as error:
        client.embed([["1"]] * 6)

    assert error.value.first == 4
    assert "begins with sentence 4" in str(error.value)


def test_retries_end_with_the_patience(client_class: Any, scripted: ScriptedServer) -> None:
    scripted.script = [refuse(503)] * 100

    with (
        client_class(scripted.url, patience_seconds=0.5) as client,
        pytest.raises(TryLater) as error,
    ):
        client.embed([["1"]])

    assert error.value.problem.detail == "not now"
    # Pauses of at least 0.05, 0.1, 0.2 and 0.4 s: the fifth attempt would come too late.
    assert 2 <= len(scripted.requests) <= 5


LOOK = r"is the server up, and are http or https, host and port its own\?"


def test_a_dead_address_is_named(client_class: Any, nobody: str) -> None:
    url = nobody.replace("//", "//user:secret@")
    with (
        client_class(url, patience_seconds=0.3) as client,
        pytest.raises(Unreachable, match=rf"^{nobody}: .*{LOOK} \(.*attempts in ") as error,
    ):
        client.info()

    assert "secret" not in str(error.value)
    assert isinstance(error.value.__cause__, httpx.ConnectError)


@pytest.mark.parametrize(
    "slow",
    [after, partial(trickle, head=True), partial(trickle, head=False)],
    ids=["silent", "head", "body"],
)
async def test_the_deadline_reaches_the_server_and_is_kept(
    scripted: ScriptedServer, slow: Any
) -> None:
    """Of a response that comes byte by byte each byte is in time; the whole response is not."""
    gate = threading.Event()
    scripted.script = [slow(gate)]
    session = Session(
        scripted.url,
        api_key=None,
        timeout_seconds=0.25,
        patience_seconds=60,
        in_flight=1,
        grace_seconds=0,
        connect_seconds=0.25,
    )

    with pytest.raises(Unreachable, match=f"^{scripted.url}: no response in time: "):
        await session.embed(vectors_of, EmbedRequest(0, 1, b'{"sentences": [["1"]]}'), {})
    gate.set()
    await session.close()

    assert scripted.requests[0][1]["X-Request-Timeout"] == "0.25"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h, _: respond(h, 200, b"<html>", "text/html"),
        lambda h, _: respond(h, 302, b"", "text/html", Location="http://127.0.0.1:9"),
    ],
    ids=["another page", "redirect"],
)
def test_a_response_of_another_program_is_never_taken_for_vectors(
    client_class: Any, scripted: ScriptedServer, wrong: Any
) -> None:
    scripted.script = [wrong]

    with client_class(scripted.url) as client, pytest.raises(BadAnswer):
        client.embed([["1"]])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "/info is not JSON"),
        (b"[]", "/info is not a JSON object"),
        (b'{"model": "x"}', "/info lacks revision, layers, dimension, limits"),
    ],
)
def test_another_program_at_the_address_is_noticed(
    client_class: Any, scripted: ScriptedServer, body: bytes, message: str
) -> None:
    scripted.info = lambda handler, _: respond(handler, 200, body)

    url = scripted.url.replace("//", "//user:secret@")
    with client_class(url) as client, pytest.raises(BadAnswer, match=message) as error:
        client.embed([["1"]])
    assert "secret" not in str(error.value)


def test_an_address_with_the_path_of_a_route_is_explained(
    client_class: Any, scripted: ScriptedServer
) -> None:
    scripted.info = refuse(404)

    with (
        client_class(f"{scripted.url}/embed") as client,
        pytest.raises(BadAnswer, match="without a path, such as http://localhost:8000"),
    ):
        client.embed([["1"]])


def test_a_change_of_the_model_is_noticed(client_class: Any, scripted: ScriptedServer) -> None:
    def other(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        correct(handler, body, revision="1")

    scripted.script = [correct, other]

    with client_class(scripted.url, in_flight=1) as client:
        with pytest.raises(ModelChanged, match="to 1 "):
            client.embed([["1"]] * 4)
        assert len(client.embed([["1"]])) == 1  # asks for the revision again


def test_the_page_of_a_proxy_is_shown_in_part(client_class: Any, scripted: ScriptedServer) -> None:
    page = b"<h1>Gateway\ntimeout</h1>" * 100
    scripted.script = [lambda h, _: respond(h, 504, page, "text/html")]

    with client_class(scripted.url) as client, pytest.raises(ServerFailed) as error:
        client.embed([["1"]])

    assert error.value.problem.status == 504
    assert error.value.problem.detail.startswith("<h1>Gateway timeout</h1>")
    assert len(str(error.value)) < 300


def test_invalid_arguments_are_refused(client_class: Any) -> None:
    for url in ("127.0.0.1:8000", "ftp://a", "http://", "", "http://a/?b=c"):
        with pytest.raises(CannotSend, match="is not"):
            client_class(url)
    with pytest.raises(CannotSend, match="in_flight"):
        client_class("http://127.0.0.1:9", in_flight=0)
    with client_class("http://a", timeout_seconds=np.float32(3), in_flight=np.int64(2)):
        pass  # numbers of NumPy are numbers
    for key in ("", "hunter two", "hunter\n", "húnter"):
        with pytest.raises(CannotSend) as error:
            client_class("http://127.0.0.1:9", api_key=key)
        assert "unter" not in str(error.value)


def test_a_key_is_sent_beside_user_and_password(
    client_class: Any, scripted: ScriptedServer
) -> None:
    with client_class(scripted.url.replace("//", "//user:pw@"), api_key="k1") as client:
        client.embed([["1"]])

    (_, headers) = scripted.requests[-1]
    assert headers["X-API-Key"] == "k1"
    assert headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("variable", "value", "scheme"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "http"),
        ("all_proxy", "socks://127.0.0.1:9", "http"),
        ("NO_PROXY", "localhost,[::1]", "http"),
        ("SSL_CERT_FILE", "/nonexistent", "https"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    client_class: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, scheme: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(CannotSend, match=variable):
        client_class(f"{scheme}://127.0.0.1:1")


def test_certificates_are_read_for_tls_alone(
    client_class: Any, monkeypatch: pytest.MonkeyPatch, scripted: ScriptedServer
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    with client_class(scripted.url) as client:
        client.embed([["1"]])


def test_a_proxy_that_is_down_is_named(
    client_class: Any, monkeypatch: pytest.MonkeyPatch, nobody: str, scripted: ScriptedServer
) -> None:
    monkeypatch.setenv("http_proxy", nobody)
    with (
        client_class(scripted.url, patience_seconds=0.1) as client,
        pytest.raises(Unreachable, match="http_proxy"),
    ):
        client.info()


@pytest.mark.parametrize("media_type", [f"{MEDIA_TYPE}; charset=utf-8", MEDIA_TYPE.upper()])
def test_a_media_type_has_no_case_and_may_have_parameters(
    client_class: Any, scripted: ScriptedServer, media_type: str
) -> None:
    scripted.script = [partial(correct, media_type=media_type)]
    with client_class(scripted.url) as client:
        (vectors,) = client.embed([["7"]])

    assert vectors[0, 0, 0] == 7
