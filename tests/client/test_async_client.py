"""AsyncClient: asynchronous input, and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from elmo_client import AsyncClient, Unreachable
from elmo_model.network.elmo import ElmoNetwork
from tests.support.scripted_server import ScriptedServer, after
from tests.support.servers import Running
from tests.support.vectors import all_close, layers_of, sentences_of


async def test_the_input_may_be_asynchronous(server: Running, elmo: ElmoNetwork) -> None:
    sentences = sentences_of(300)

    async def produce() -> AsyncIterator[list[str]]:
        for sentence in sentences:
            await asyncio.sleep(0)
            yield sentence

    async with AsyncClient(server.url) as client:
        streamed = [array async for array in client.stream(produce(), layers="top")]
        whole, part = await asyncio.gather(
            client.embed(produce()), client.embed(sentences[:9], layers="top")
        )

    expected = layers_of(elmo, sentences)
    all_close(streamed, [each[-1] for each in expected])
    all_close(whole, expected)
    all_close(part, [each[-1] for each in expected[:9]])


async def test_a_slow_source_holds_up_no_response(scripted: ScriptedServer) -> None:
    gate = asyncio.Event()

    async def produce() -> AsyncIterator[list[str]]:
        for number in range(4):  # two requests
            if number == 3:  # the third sentence ends the first request
                await gate.wait()
            yield [str(number)]

    async with AsyncClient(scripted.url) as client:
        stream = client.stream(produce())
        first = [int((await anext(stream))[0, 0, 0]) for _ in range(2)]
        gate.set()
        rest = [int(array[0, 0, 0]) async for array in stream]

    assert (first, rest) == ([0, 1], [2, 3])


def test_a_client_belongs_to_one_event_loop(scripted: ScriptedServer) -> None:
    client = AsyncClient(scripted.url)
    with asyncio.Runner() as first:
        first.run(client.info())

        with pytest.raises(Unreachable, match="belongs to another event loop; create one in each"):
            asyncio.run(client.embed([["1"]]))
        with pytest.raises(Unreachable, match="belongs to another event loop"):
            asyncio.run(client.close())
        first.run(client.close())


async def test_a_closed_client_says_so(scripted: ScriptedServer) -> None:
    client = AsyncClient(scripted.url)
    await client.info()
    await client.close()
    await client.close()

    with pytest.raises(Unreachable, match=r"^the client is closed$"):
        await client.embed([["a"]])


async def test_a_cancelled_call_leaves_no_task_and_no_connection(scripted: ScriptedServer) -> None:
    gate = threading.Event()
    scripted.script = [after(gate)] * 4
    async with AsyncClient(scripted.url, in_flight=4) as client:
        call = asyncio.create_task(client.embed([[str(number)] for number in range(100)]))
        for _ in range(4):
            await asyncio.to_thread(scripted.arrived.acquire)

        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gate.set()
        assert len(scripted.requests) == 4
        assert len(await client.embed([["1"]])) == 1
