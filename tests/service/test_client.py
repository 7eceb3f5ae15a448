"""The Python client, against real servers and against one that misbehaves as it is told."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.checkpoints import load
from model.elmo import Elmo
from service.client import (
    AsyncClient,
    BadAnswer,
    CannotSend,
    Client,
    InvalidRequest,
    ModelChanged,
    NotFound,
    ServerFailed,
    Task,
    TooLarge,
    TryLater,
    Unauthorized,
    Unreachable,
)
from service.encodings import safetensors
from service.encodings.answer import Answer
from tests.conftest import KEY
from tests.servers import SMALL, Running

SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60], ["a", "b"]]
WORDS = ["The", "naïve", "東京", "cat", "sat", "on", "a", "mat", ".", ""]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return load(SMALL)


@pytest.fixture(scope="module")
def sdk(server: Running) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def narrow_sdk(narrow: Running) -> Iterator[Client]:
    with Client(narrow.url, api_key=KEY, in_flight=2) as client:
        yield client


def many(count: int, longest: int = 9) -> list[list[str]]:
    generator = np.random.default_rng(count)
    return [
        [WORDS[i] for i in generator.integers(0, len(WORDS), generator.integers(0, longest + 1))]
        for _ in range(count)
    ]


def assert_close(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def every_layer(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    return [layers.numpy() for layers in elmo.embed(sentences)]


def test_vectors_are_those_of_the_network(sdk: Client, elmo: Elmo) -> None:
    expected = every_layer(elmo, SENTENCES)

    assert_close(sdk.embed(SENTENCES), expected)
    assert_close(sdk.embed(SENTENCES, layers="top"), [e[-1] for e in expected])
    assert_close(sdk.embed(SENTENCES, layers="average"), [e.mean(0) for e in expected])
    assert_close(sdk.embed(SENTENCES, layers=[2, 0]), [e[[2, 0]] for e in expected])
    assert_close(sdk.embed(SENTENCES, mix=[0, 0, 0]), [e.mean(0) for e in expected])
    doubled = sdk.embed(SENTENCES, mix={"weights": [0, 0, 0], "gamma": 2})
    assert_close(doubled, [2 * e.mean(0) for e in expected])
    pooled = sdk.embed(SENTENCES, pooling="max", dtype="float16")
    assert [(array.shape, array.dtype) for array in pooled] == [((3, 32), np.float16)] * 4
    assert sdk.embed([]) == []


def test_order_is_kept_over_many_requests(sdk: Client, elmo: Elmo, server: Running) -> None:
    sentences = many(700)
    before = server.metric("elmo_http_requests_total", route="/embed", status="200")

    found = sdk.embed(sentences, layers="all")

    assert_close(found, every_layer(elmo, sentences))
    requests = server.metric("elmo_http_requests_total", route="/embed", status="200") - before
    assert requests > 1


def test_any_number_of_sentences_fits_through_narrow_limits(narrow_sdk: Client, elmo: Elmo) -> None:
    # 3 sentences, 16 tokens in the queue, 1,000 bytes of body and 4,000 of answers at a time.
    sentences = many(60, longest=4)

    assert_close(narrow_sdk.embed(sentences), every_layer(elmo, sentences))


def test_vectors_may_be_changed(sdk: Client) -> None:
    (vectors,) = sdk.embed([["a"]])
    vectors += 1


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (["a"] * 5, "sentence 1 holds 5 tokens and the server allows 4"),
        (["x" * 990], "makes a request of"),
        ("The cat", "sentence 1 is a string"),
        (["a", 3], "token 1 of sentence 1 is 3, not a string"),
        (["\ud800"], "sentence 1 has no UTF-8"),
    ],
)
def test_what_no_server_takes_is_said_before_it_is_sent(
    narrow_sdk: Client, narrow: Running, sentence: Any, message: str
) -> None:
    with pytest.raises(CannotSend, match=message):
        narrow_sdk.embed([["fine"], sentence])


def test_what_goes_not_together_is_refused(sdk: Client) -> None:
    with pytest.raises(CannotSend, match="layers and task are given"):
        sdk.embed(SENTENCES, layers="top", task="ner")
    for url in ("127.0.0.1:8000", "ftp://a", "http://", ""):
        with pytest.raises(CannotSend, match="is no URL"):
            Client(url)
    for options in ({"in_flight": 0}, {"timeout_seconds": 0}, {"timeout_seconds": float("inf")}):
        with pytest.raises(CannotSend, match=next(iter(options))):
            Client("http://127.0.0.1:9", **options)
    for key in ("", "hunter two", "hunter\n", "húnter"):
        with pytest.raises(CannotSend) as error:
            Client("http://127.0.0.1:9", api_key=key)
        assert "unter" not in str(error.value)


def test_a_stream_reads_no_further_than_it_must(sdk: Client, elmo: Elmo) -> None:
    taken = 0

    def endless() -> Iterator[list[str]]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield ["number", str(number)]

    stream = sdk.stream(endless(), layers="top")
    found = list(itertools.islice(stream, 2000))
    stream.close()  # type: ignore[attr-defined]

    expected = elmo.embed([["number", str(number)] for number in (0, 1999)])
    assert_close([found[0], found[1999]], [each[-1].numpy() for each in expected])
    # 4 tokens a sentence, 2 batches of 1,024 tokens a request, 4 requests in flight, one on its way
    assert taken <= 2000 + 5 * 512 + 512


def test_tasks_are_put_used_listed_and_deleted(sdk: Client, tasks: Path, elmo: Elmo) -> None:
    put = sdk.put_task("sense", [0.5, -1.0, 2.0], gamma=1.5, description="an example")

    assert put == Task("sense", (0.5, -1.0, 2.0), 1.5, False, "an example")
    assert sdk.tasks() == (put,)
    by_name, inline = (
        sdk.embed(SENTENCES, **wanted)
        for wanted in (
            {"task": "sense"},
            {"mix": {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}},
        )
    )
    assert_close(by_name, inline)
    sdk.delete_task("sense")
    assert sdk.tasks() == ()
    with pytest.raises(NotFound) as error:
        sdk.embed(SENTENCES, task="sense")
    assert error.value.problem.type == "urn:elmo-serve:error:unknown-task"
    assert error.value.problem.instance
    with pytest.raises(NotFound):
        sdk.delete_task("a/../b c")


def test_a_refusal_carries_its_document(sdk: Client) -> None:
    with pytest.raises(InvalidRequest) as error:
        sdk.embed(SENTENCES, layers=[0, 7])

    problem = error.value.problem
    assert problem.status == 422
    assert problem.errors[0].pointer == "/layers/1"
    assert "there is no layer 7" in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert again.problem == problem


def test_a_wrong_key_is_told_and_never_shown(narrow: Running) -> None:
    for key in (None, "sesame"):
        with Client(narrow.url, api_key=key) as client, pytest.raises(Unauthorized) as error:
            client.info()
        assert "sesame" not in repr(client) + str(error.value)


def test_it_needs_neither_torch_nor_the_framework() -> None:
    code = (
        "import sys, service.client, service.elmo_embedder;"
        "print({'torch', 'fastapi', 'starlette', 'pydantic', 'h5py'} & sys.modules.keys())"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "set()\n"


async def test_coroutines_get_the_same(server: Running, elmo: Elmo) -> None:
    sentences = many(300)

    async def as_they_come() -> AsyncIterator[list[str]]:
        for sentence in sentences:
            await asyncio.sleep(0)
            yield sentence

    async with AsyncClient(server.url) as client:
        whole = await client.embed(sentences)
        streamed = [array async for array in client.stream(as_they_come(), layers="top")]
        with pytest.raises(CannotSend):
            await client.embed(["a string"])
        with pytest.raises(NotFound):
            await client.embed(sentences, task="nobody")

    expected = every_layer(elmo, sentences)
    assert_close(whole, expected)
    assert_close(streamed, [each[-1] for each in expected])


async def test_coroutines_manage_tasks_too(server: Running, tasks: Path) -> None:
    async with AsyncClient(server.url) as client:
        task = await client.put_task("a", [1, 2, 3], layer_norm=True)
        assert await client.tasks() == (task,)
        await client.delete_task("a")
        assert await client.tasks() == ()


async def test_a_coroutine_that_is_cancelled_leaves_nothing_behind(slow: Running) -> None:
    before = slow.metric("elmo_cancelled_sentences_total", stage="queued")
    async with AsyncClient(slow.url) as client:
        task = asyncio.create_task(client.embed([[f"word{i}"] for i in range(30_000)]))
        await until(lambda: slow.metric("elmo_queue_sentences") > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
    await until(lambda: slow.metric("elmo_queue_sentences") == 0)
    assert slow.metric("elmo_cancelled_sentences_total", stage="queued") > before


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


# A server that does what it is told


class Told:
    """What it answers next, by request to POST /embed; and what it was asked."""

    def __init__(self) -> None:
        self.script: list[Callable[[BaseHTTPRequestHandler, bytes], None]] = []
        self.asked: list[tuple[float, dict[str, str]]] = []
        self.url = ""


@pytest.fixture
def told() -> Iterator[Told]:
    it = Told()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, 200, json.dumps(INFO).encode(), "application/json")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"] or 0))
            it.asked.append((time.monotonic(), dict(self.headers)))
            (it.script.pop(0) if it.script else right)(self, body)

        do_DELETE = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    it.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield it
    server.shutdown()
    thread.join()
    server.server_close()


INFO = {
    "model": "told",
    "revision": "0",
    "format": "none",
    "layers": 3,
    "dimension": 4,
    "parameters": 0,
    "precision": "float32",
    "limits": {
        "max_batch_tokens": 6,
        "max_queue_tokens": 100,
        "max_request_sentences": 2,
        "max_sentence_tokens": 10,
        "max_body_bytes": 10_000,
        "max_answer_bytes": 10_000,
    },
}


def answer(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, media_type: str, **headers: str
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def right(handler: BaseHTTPRequestHandler, body: bytes, revision: str = "0") -> None:
    """Answer every sentence with the number that its first token is."""
    arrays = [
        np.full((3, len(sentence), 4), float(sentence[0]), np.float32)
        for sentence in json.loads(body)["sentences"]
    ]
    made = safetensors.encode(Answer("told", revision, 4, (0, 1, 2), 0, arrays))
    answer(handler, 200, b"".join(made), safetensors.ENCODING.media_type)


def refuse(status: int, **headers: str) -> Callable[[BaseHTTPRequestHandler, bytes], None]:
    problem = {"type": "urn:x", "title": "No", "status": status, "detail": "not now"}

    def act(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        text = json.dumps(problem).encode()
        answer(handler, status, text, "application/problem+json", **headers)

    return act


def hang_up(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.close_connection = True
    handler.connection.close()


def break_off(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", safetensors.ENCODING.media_type)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half")
    handler.close_connection = True


@pytest.mark.parametrize("status", [429, 503])
def test_it_comes_back_when_the_server_says_so(told: Told, status: int) -> None:
    told.script = [refuse(status, Retry_After="1")]

    with Client(told.url) as client:
        (vectors,) = client.embed([["7"]])

    assert vectors[0, 0, 0] == 7
    (first, _), (second, _) = told.asked
    assert 1.0 <= second - first < 1.6


def test_a_lost_connection_is_tried_again(told: Told) -> None:
    told.script = [hang_up, break_off, refuse(503), refuse(503, Retry_After="nonsense"), hang_up]
    sentences = [[str(number)] for number in range(9)]

    with Client(told.url, in_flight=3) as client:
        found = client.embed(sentences)

    assert [array[0, 0, 0] for array in found] == list(range(9))
    assert len(told.asked) == 5 + 5  # two sentences a request: each of five fails once, or one more


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InvalidRequest), (401, Unauthorized), (413, TooLarge), (500, ServerFailed)],
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_what_fails_again_is_not_sent_again(
    told: Told, status: int, error: type[Exception], kind: type
) -> None:
    told.script = [refuse(status)] * 3

    with pytest.raises(error, match="not now"):
        if kind is Client:
            with Client(told.url) as client:
                client.embed([["1"]])
        else:
            asyncio.run(_embed_once(told.url))

    assert len(told.asked) == 1


async def _embed_once(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.embed([["1"]])


def test_an_error_says_which_request_it_was(told: Told) -> None:
    told.script = [right, right, refuse(500)]

    with Client(told.url, in_flight=1) as client, pytest.raises(ServerFailed) as error:
        client.embed([["1"]] * 6)

    assert error.value.first == 4
    assert "begins with sentence 4" in str(error.value)


def test_patience_ends(told: Told) -> None:
    told.script = [refuse(503)] * 100

    with Client(told.url, patience_seconds=0.5) as client, pytest.raises(TryLater) as error:
        client.embed([["1"]])

    assert error.value.problem.detail == "not now"
    assert 2 < len(told.asked) < 20
    assert told.asked[-1][0] - told.asked[0][0] < 5  # a busy machine is late


def test_nobody_there_is_said_after_patience() -> None:
    with (
        Client("http://127.0.0.1:9", patience_seconds=0.3) as client,
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


def test_a_delete_is_not_repeated_when_it_may_have_been_seen(told: Told) -> None:
    told.script = [hang_up, right]

    with Client(told.url) as client, pytest.raises(Unreachable):
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
def test_what_is_no_answer_is_never_taken_for_one(told: Told, wrong: Any) -> None:
    told.script = [wrong]

    with Client(told.url) as client, pytest.raises(BadAnswer):
        client.embed([["1"]])


def test_another_model_in_between_is_noticed(told: Told) -> None:
    def other(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        right(handler, body, revision="1")

    told.script = [right, other]

    with Client(told.url, in_flight=1) as client:
        with pytest.raises(ModelChanged, match="from 0 to 1"):
            client.embed([["1"]] * 4)
        assert len(client.embed([["1"]])) == 1  # it asks what is served anew


def test_a_page_of_a_proxy_is_shown_in_part(told: Told) -> None:
    told.script = [lambda h, _: answer(h, 502, b"<h1>Bad\ngateway</h1>" * 100, "text/html")]

    with Client(told.url) as client, pytest.raises(ServerFailed) as error:
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
