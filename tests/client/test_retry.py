"""When a request is sent again, what is refused, and what is taken for an answer: both clients."""

from __future__ import annotations

import email.utils
import itertools
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from elmo_client import (
    BadAnswer,
    Client,
    InvalidRequest,
    ModelChanged,
    ServerFailed,
    TooLarge,
    TryLater,
    Unauthorized,
    Unreachable,
)
from elmo_serve.http.media_types import safetensors
from tests.support.scripted_server import Told, answer, break_off, hang_up, refuse, right


@pytest.mark.parametrize("status", [429, 503])
def test_it_comes_back_when_the_server_says_so(door: Any, told: Told, status: int) -> None:
    told.script = [refuse(status, Retry_After="1")]

    with door(told.url) as client:
        (vectors,) = client.embed([["7"]])

    assert vectors[0, 0, 0] == 7
    (first, _), (second, _) = told.asked
    assert 1.0 <= second - first < 1.6


def test_a_time_of_day_is_waited_for_too(door: Any, told: Told) -> None:
    def at_two(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        refuse(503, Retry_After=email.utils.formatdate(time.time() + 2))(handler, body)

    told.script = [at_two]

    with door(told.url) as client:
        (vectors,) = client.embed([["7"]])

    assert vectors[0, 0, 0] == 7
    (first, _), (second, _) = told.asked
    assert 0.9 <= second - first < 2.7  # a date has whole seconds


def test_what_comes_out_of_order_is_handed_on_in_order(door: Any, told: Told) -> None:
    def late(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        time.sleep(0.3)
        right(handler, body)

    told.script = [late]

    with door(told.url, in_flight=3) as client:
        found = client.embed([[str(number)] for number in range(9)])

    assert [array[0, 0, 0] for array in found] == list(range(9))


def test_a_request_is_cut_by_every_limit(door: Any, told: Told) -> None:
    # Two sentences and 12 tokens a request, where a sentence costs its tokens and two.
    sentences = [["1"], ["2"], ["3"], ["4"] * 9, ["5"] * 2, ["6"] * 5, ["7"] * 6]

    with door(told.url) as client:
        found = client.embed(sentences)

    assert [(array[0, 0, 0], array.shape[1]) for array in found] == [
        (number, len(tokens)) for number, tokens in enumerate(sentences, 1)
    ]
    assert sorted(told.sizes) == [1, 1, 1, 2, 2]


def test_what_is_taken_of_a_stream_is_all_that_is_asked_for(door: Any, told: Told) -> None:
    with door(told.url, in_flight=2) as client:
        stream = client.stream([str(number)] for number in itertools.count())
        first = [next(stream)[0, 0, 0] for _ in range(4)]
        stream.close()

    assert first == [0, 1, 2, 3]
    assert len(told.asked) <= 2 + 2 + 1


def test_a_lost_connection_is_tried_again(door: Any, told: Told) -> None:
    told.script = [hang_up, break_off, refuse(503), refuse(503, Retry_After="nonsense"), hang_up]
    sentences = [[str(number)] for number in range(9)]

    with door(told.url, in_flight=3) as client:
        found = client.embed(sentences)

    assert [array[0, 0, 0] for array in found] == list(range(9))
    assert len(told.asked) == 5 + 5  # two sentences a request: each of five fails once, or one more


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InvalidRequest), (401, Unauthorized), (413, TooLarge), (500, ServerFailed)],
)
def test_what_fails_again_is_not_sent_again(
    door: Any, told: Told, status: int, error: type[Exception]
) -> None:
    told.script = [refuse(status)] * 3

    with door(told.url) as client, pytest.raises(error, match="not now"):
        client.embed([["1"]])

    assert len(told.asked) == 1


def test_an_error_says_which_request_it_was(door: Any, told: Told) -> None:
    told.script = [right, right, refuse(500)]

    with door(told.url, in_flight=1) as client, pytest.raises(ServerFailed) as error:
        client.embed([["1"]] * 6)

    assert error.value.first == 4
    assert "begins with sentence 4" in str(error.value)


def test_patience_ends(door: Any, told: Told) -> None:
    told.script = [refuse(503)] * 100

    with door(told.url, patience_seconds=0.5) as client, pytest.raises(TryLater) as error:
        client.embed([["1"]])

    assert error.value.problem.detail == "not now"
    assert 2 < len(told.asked) < 20
    assert told.asked[-1][0] - told.asked[0][0] < 5  # a busy machine is late


def test_nobody_there_is_said_after_patience(door: Any) -> None:
    with (
        door("http://127.0.0.1:9", patience_seconds=0.3) as client,
        pytest.raises(Unreachable, match=r"\d+ attempts in 0\.\d s"),
    ):
        client.info()


def test_time_is_told_to_the_server_and_kept(told: Told) -> None:
    told.script = [lambda _handler, _body: time.sleep(1.5)]
    started = time.monotonic()

    with Client(told.url, timeout_seconds=0.25) as client:
        client._http.timeout = 0.5  # without the grace that a server's own 504 is given
        with pytest.raises(Unreachable, match="no answer in time"):
            client.embed([["1"]])

    assert time.monotonic() - started < 1.4
    assert told.asked[0][1]["X-Request-Timeout"] == "0.25"


def test_a_delete_is_not_repeated_when_it_may_have_been_seen(door: Any, told: Told) -> None:
    told.script = [hang_up, right]

    with door(told.url) as client, pytest.raises(Unreachable):
        client.delete_task("a")

    assert len(told.asked) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda h, _: answer(h, 200, b"<html>", "text/html"),
        lambda h, _: answer(h, 200, b"nonsense", safetensors.ENCODING.media_type),
        lambda h, _: right(h, b'{"sentences": [["1"], ["2"]]}'),
        lambda h, _: answer(h, 302, b"", "text/html", Location="http://127.0.0.1:9"),
    ],
    ids=["another page", "no tensors", "too many", "elsewhere"],
)
def test_what_is_no_answer_is_never_taken_for_one(door: Any, told: Told, wrong: Any) -> None:
    told.script = [wrong]

    with door(told.url) as client, pytest.raises(BadAnswer):
        client.embed([["1"]])


def test_another_model_in_between_is_noticed(door: Any, told: Told) -> None:
    def other(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        right(handler, body, revision="1")

    told.script = [right, other]

    with door(told.url, in_flight=1) as client:
        with pytest.raises(ModelChanged, match="from 0 to 1"):
            client.embed([["1"]] * 4)
        assert len(client.embed([["1"]])) == 1  # it asks what is served anew


def test_a_page_of_a_proxy_is_shown_in_part(door: Any, told: Told) -> None:
    told.script = [lambda h, _: answer(h, 502, b"<h1>Bad\ngateway</h1>" * 100, "text/html")]

    with door(told.url) as client, pytest.raises(ServerFailed) as error:
        client.embed([["1"]])

    assert error.value.problem.status == 502
    assert error.value.problem.detail.startswith("<h1>Bad gateway</h1>")
    assert len(str(error.value)) < 300


def test_closing_ends_the_waiting(told: Told) -> None:
    told.script = [refuse(503, Retry_After="30")] * 9
    client = Client(told.url)
    failure: list[Exception] = []

    def embed() -> None:
        try:
            client.embed([["1"]])
        except Unreachable as error:
            failure.append(error)

    thread = threading.Thread(target=embed)
    thread.start()
    while not told.asked:
        time.sleep(0.01)
    client.close()
    thread.join(5)

    assert not thread.is_alive()
    assert "closed" in str(failure[0])
