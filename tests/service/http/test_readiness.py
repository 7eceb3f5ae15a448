"""The state of a server: loading, ready, failed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.http.state import Server, assemble
from elmo_serve.settings import Settings
from elmo_serve.settings.values import ModelSource
from elmo_serve.workers.messages import LoadFailed, Message, ModelInfo, Ready, RunnerSettings
from tests.support.engines import until
from tests.support.servers import SMALL
from tests.support.workers import INFO, GatedWorker


class Unloadable(GatedWorker):
    """A worker whose model cannot be loaded."""

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        super().start(on_message, on_exit)
        asyncio.get_running_loop().call_soon(on_message, LoadFailed("the disk is full of holes"))
        self.die("exited with status 0")


class Described(GatedWorker):
    """A worker that describes its model as `info`."""

    def __init__(self, info: ModelInfo) -> None:
        super().__init__(loads=False)
        self._info = info

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        super().start(on_message, on_exit)
        asyncio.get_running_loop().call_soon(on_message, Ready(self._info))


def made(worker: Callable[[], GatedWorker], tasks: Path) -> Server:
    settings = Settings(model=str(SMALL), devices=("cpu",), tasks=tasks)
    return assemble(settings, lambda _runner, _arena: worker())


async def test_a_model_that_cannot_be_loaded_is_fatal(tmp_path: Path) -> None:
    server = made(lambda: Unloadable(loads=False), tmp_path)
    server.engine.start()

    await server.readiness.open()

    assert "the disk is full of holes" in (server.readiness.reason or "")
    assert server.readiness.public_reason == "it cannot serve; the log has the reason"
    await server.close()


async def test_one_of_several_models_that_fails_at_first_is_served_once_it_loads(
    tmp_path: Path,
) -> None:
    """The pod before may hold the GPU for a while; no orchestrator restarts this one for it."""
    workers: dict[str, list[GatedWorker]] = {"/a": [], "/b": []}

    def worker(runner: RunnerSettings) -> GatedWorker:
        made = workers[runner.model]
        made.append(Described(INFO) if runner.model == "/a" or made else Unloadable(loads=False))
        return made[-1]

    settings = Settings(
        models=(ModelSource("a", "/a"), ModelSource("b", "/b")), devices=("cpu",), tasks=tmp_path
    )
    server = assemble(settings, lambda runner, _: worker(runner))
    server.engine.start()
    await server.readiness.open()
    late = server.models.get("b")
    assert server.readiness.public_reason is None
    assert (late.condition.state, late.pool.slots[0].has_given_up) == ("failed", True)

    late.pool.slots[0].start(Ready(INFO))  # its time, some minutes later
    await until(lambda: late.condition.state == "ready")

    assert late.condition.public is None
    await server.close()


async def test_a_server_is_not_ready_while_one_of_its_models_loads(tmp_path: Path) -> None:
    settings = Settings(
        models=(ModelSource("a", "/a"), ModelSource("b", "/b")), devices=("cpu",), tasks=tmp_path
    )
    server = assemble(settings, lambda runner, _: GatedWorker(loads=runner.model == "/a"))
    server.engine.start()
    opening = asyncio.ensure_future(server.readiness.open())
    await until(lambda: server.models.get("a").condition.state == "ready")

    assert server.readiness.public_reason == "b: the model is loading"
    with pytest.raises(Unavailable, match="the model is loading"):
        _ = server.models.get("b").tasks
    opening.cancel()
    await server.close()


async def test_a_server_is_not_ready_while_no_helper_process_can_be_started(tmp_path: Path) -> None:
    """Each text and each large body would be refused."""
    server = made(GatedWorker, tmp_path)
    server.engine.start()
    await server.readiness.open()
    *others, last = server.helpers._slots
    for slot in others:
        slot.failed_starts = 1
    assert server.readiness.public_reason is None
    last.failed_starts = 1
    assert "helper" in (server.readiness.public_reason or "")
    last.failed_starts = 0

    assert server.readiness.public_reason is None
    await server.close()


async def test_a_task_folder_that_cannot_be_used_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = made(GatedWorker, tmp_path / "file")
    server.engine.start()

    await server.readiness.open()

    assert server.readiness.reason is not None
    assert "ELMO_TASKS" in (server.readiness.reason or "")
    await server.close()
