"""The Python client against real servers: every test is one for threads and for coroutines."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_client import (
    AsyncClient,
    CannotSend,
    Client,
    InvalidRequest,
    NotFound,
    Task,
    Unauthorized,
)
from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from tests.conftest import KEY
from tests.support.servers import SMALL, Running

SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60], ["a", "b"]]
WORDS = ["The", "naïve", "東京", "cat", "sat", "on", "a", "mat", ".", ""]


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    return load(SMALL)


@pytest.fixture(scope="module")
def sdk(door: Any, server: Running) -> Iterator[Client]:
    with door(server.url) as client:
        yield client


@pytest.fixture(scope="module")
def narrow_sdk(door: Any, narrow: Running) -> Iterator[Client]:
    with door(narrow.url, api_key=KEY, in_flight=2) as client:
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


def test_what_goes_not_together_is_refused(sdk: Client, door: Any) -> None:
    with pytest.raises(CannotSend, match="layers and task are given"):
        sdk.embed(SENTENCES, layers="top", task="ner")
    for url in ("127.0.0.1:8000", "ftp://a", "http://", ""):
        with pytest.raises(CannotSend, match="is no URL"):
            door(url)
    for options in ({"in_flight": 0}, {"timeout_seconds": 0}, {"timeout_seconds": float("inf")}):
        with pytest.raises(CannotSend, match=next(iter(options))):
            door("http://127.0.0.1:9", **options)
    for key in ("", "hunter two", "hunter\n", "húnter"):
        with pytest.raises(CannotSend) as error:
            door("http://127.0.0.1:9", api_key=key)
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


def test_a_wrong_key_is_told_and_never_shown(door: Any, narrow: Running) -> None:
    for key in (None, "sesame"):
        with door(narrow.url, api_key=key) as client, pytest.raises(Unauthorized) as error:
            client.info()
        assert "sesame" not in repr(client) + str(error.value)


def test_it_needs_neither_torch_nor_the_framework() -> None:
    code = (
        "import sys, elmo_client;"
        "print({'torch', 'fastapi', 'starlette', 'pydantic', 'h5py'} & sys.modules.keys())"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "set()\n"


async def test_coroutines_take_what_is_awaited(server: Running, elmo: Elmo) -> None:
    sentences = many(300)

    async def as_they_come() -> AsyncIterator[list[str]]:
        for sentence in sentences:
            await asyncio.sleep(0)
            yield sentence

    async with AsyncClient(server.url) as client:
        streamed = [array async for array in client.stream(as_they_come(), layers="top")]
        whole, aside = await asyncio.gather(
            client.embed(as_they_come()), client.embed(sentences[:9], layers="top")
        )

    expected = every_layer(elmo, sentences)
    assert_close(streamed, [each[-1] for each in expected])
    assert_close(whole, expected)
    assert_close(aside, [each[-1] for each in expected[:9]])


def test_threads_share_a_client(server: Running, elmo: Elmo) -> None:
    sentences = many(100)
    with Client(server.url) as client, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(client.embed, [sentences] * 4))

    expected = every_layer(elmo, sentences)
    for answer in answers:
        assert_close(answer, expected)


async def test_a_coroutine_that_is_cancelled_leaves_nothing_behind(slow: Running) -> None:
    sentences = [[f"word{i}"] for i in range(30_000)]

    async def cancelled_in_the_queue() -> bool:
        """Cancel a call while some of it waits; say whether any was taken off the queue.

        The worker may have taken all of it meanwhile: what is in flight is little.
        """
        before = slow.metric("elmo_cancelled_sentences_total", stage="queued")
        async with AsyncClient(slow.url, in_flight=64) as client:
            task = asyncio.create_task(client.embed(sentences))
            await until(lambda: slow.metric("elmo_queue_sentences") > 0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await until(lambda: slow.metric("elmo_queue_sentences") == 0)
        return slow.metric("elmo_cancelled_sentences_total", stage="queued") > before

    for _ in range(20):
        if await cancelled_in_the_queue():
            return
    raise AssertionError("20 calls were cancelled and nothing was taken off the queue")


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if await asyncio.to_thread(holds):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError
