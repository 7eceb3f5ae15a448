"""The workers of a model on other machines: when they are ready, and why they are not."""

import asyncio

from elmo_serve.distributed.messages import LoadFault
from elmo_serve.distributed.remote_workers import RemoteWorkers, ReplicaLostError
from elmo_serve.errors import Unavailable
from tests.support.engines import until
from tests.support.scripted_replicas import DESCRIPTION, ScriptedReplicas, right


def workers_of(*describes: object, answer_seconds: float = 0.01) -> RemoteWorkers:
    replicas = ScriptedReplicas([right], list(describes))  # type: ignore[arg-type]
    return RemoteWorkers("m", replicas, ping_seconds=0.0, answer_seconds=answer_seconds)


async def test_a_model_is_ready_once_a_replica_has_described_it() -> None:
    gate = asyncio.Event()
    workers = workers_of(gate, DESCRIPTION)
    assert workers.reason == "no replica has answered yet"
    workers.start()
    outcome = asyncio.ensure_future(workers.first_outcome())
    gate.set()

    assert await outcome is None
    assert workers.is_ready
    assert workers.info == DESCRIPTION.info
    assert [slot.budget for slot in workers.slots] == [64]
    await workers.stop()


async def test_a_model_that_cannot_be_loaded_has_the_reason_for_ever() -> None:
    workers = workers_of(LoadFault("model.hdf5 is damaged"))
    workers.start()

    assert await workers.first_outcome() == "model.hdf5 is damaged"
    assert not workers.is_fit
    await workers.stop()


async def test_the_first_answer_is_waited_for_while_replicas_are_lost_or_load() -> None:
    workers = workers_of(
        ReplicaLostError("gone"), Unavailable("cpu: it is loading.", retry_after=1), DESCRIPTION
    )
    workers.start()

    assert await workers.first_outcome() is None
    await workers.stop()


async def test_a_replica_that_raises_is_asked_again() -> None:
    """A fault of the program in one answer: without further questions the state would stay."""
    fault = RuntimeError("no such layer")
    gate = asyncio.Event()
    workers = workers_of(fault, DESCRIPTION, fault, gate, DESCRIPTION, answer_seconds=1e9)
    workers.start()

    assert await asyncio.wait_for(workers.first_outcome(), 60) is None
    await asyncio.wait_for(workers.until_down(), 60)
    assert workers.reason == "a replica fails: RuntimeError: no such layer"
    gate.set()
    await until(lambda: workers.is_ready)
    await workers.stop()


async def test_silence_makes_a_model_not_ready_until_a_replica_answers_again() -> None:
    gate = asyncio.Event()
    workers = workers_of(DESCRIPTION, gate, gate, DESCRIPTION)
    workers.start()
    await workers.first_outcome()

    await asyncio.wait_for(workers.until_down(), 60)
    assert "no replica has answered" in workers.reason
    assert workers.is_fit
    gate.set()
    await until(lambda: workers.is_ready)
    await workers.stop()


async def test_one_lost_replica_does_not_make_a_model_not_ready() -> None:
    workers = workers_of(
        DESCRIPTION, ReplicaLostError("gone"), DESCRIPTION, asyncio.Event(), answer_seconds=1e9
    )
    workers.start()
    await workers.first_outcome()
    for _ in range(50):
        await asyncio.sleep(0)

    assert workers.is_ready
    await workers.stop()
