"""One fit from its vectors to the task file; it is trained in the process of the test."""

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, ServiceError, Unavailable, UnknownTask
from elmo_serve.jobs.bulk_queue import WorkFailedError
from elmo_serve.jobs.run import FitRun
from elmo_serve.jobs.store import JobFolder
from elmo_serve.tasks.registry import TaskRegistry
from tests.support.engines import Bench, bench
from tests.support.fit_tasks import Pause, fit_host, fit_plan, fit_queue, fit_registry
from tests.support.gated_worker import GatedWorker


def fit_run(
    folder: Path,
    b: Bench,
    *,
    registry: TaskRegistry | None = None,
    pause: Pause = asyncio.sleep,
    **options: object,
) -> FitRun:
    jobs = JobFolder(folder)
    jobs.artefacts("a").parent.mkdir()
    registry = registry or fit_registry(b.engine, folder)
    host = fit_host(folder / "scratch", pause=pause)
    queue = fit_queue(b.engine)
    return FitRun("0" * 16, "mine", queue, registry, fit_plan(**options), jobs, host)


def files_of(folder: Path, name: str) -> list[Path]:
    return list(folder.glob(f"{name}*"))


async def test_a_fit_publishes_its_task_with_the_scores(tmp_path: Path) -> None:
    progress: list[float] = []

    async with bench() as b:
        registry = fit_registry(b.engine, tmp_path)
        run = fit_run(tmp_path, b, registry=registry)

        task = await run.run(lambda: progress.append(run.progress))

    assert progress == sorted(progress) and progress[-1] == 1.0
    assert list(run.scores["mixtures"]) == [
        *("learned", "average", "sum", "layer 0", "layer 1", "layer 2", "top")
    ]
    assert run.scores["mixtures"]["top"] == run.scores["mixtures"]["layer 2"]
    kept = registry.get("mine")
    assert task["weights"] == list(kept.weights) and task["gamma"] == kept.gamma
    fit = json.loads((tmp_path / "mine.json").read_bytes())["fit"]
    assert fit["job"] == "0" * 16 and fit["measure"] == run.scores["measure"]
    assert set(fit["scores"]) == set(run.scores["mixtures"])
    assert (tmp_path / "mine.fit" / "head.safetensors").is_file()


async def test_a_cancelled_fit_leaves_nothing(tmp_path: Path) -> None:
    """It is cancelled while its first piece is computed."""
    held = GatedWorker(is_open=False)
    async with bench(lambda: held) as b:
        registry = fit_registry(b.engine, tmp_path)
        running = asyncio.ensure_future(fit_run(tmp_path, b, registry=registry).run(lambda: None))
        await begun(b)

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.open()

    with pytest.raises(UnknownTask):
        registry.get("mine")
    assert not files_of(tmp_path, "mine")


class SlowRegistry(TaskRegistry):
    """A registry that writes a task, or raises `fault`, when its gate is set."""

    def __init__(self, registry: TaskRegistry, fault: Exception | None = None) -> None:
        super().__init__(registry.folder, registry.owner)
        self.fault = fault
        self.begun, self.gate = threading.Event(), threading.Event()

    def put(
        self, task: Task, fit: Mapping[str, Any] | None = None, files: Path | None = None
    ) -> bool:
        self.begun.set()
        self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return super().put(task, fit, files)


async def cancelled_while_published(
    running: asyncio.Future[Mapping[str, Any]], registry: SlowRegistry
) -> None:
    await asyncio.to_thread(registry.begun.wait, 60)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    registry.gate.set()


async def test_a_fit_that_is_cancelled_while_it_is_published_is_done(tmp_path: Path) -> None:
    """Every cancellation is too late, also a second one: the task is there."""
    async with bench() as b:
        registry = SlowRegistry(fit_registry(b.engine, tmp_path))
        running = asyncio.ensure_future(fit_run(tmp_path, b, registry=registry).run(lambda: None))

        await cancelled_while_published(running, registry)

        assert (await running)["name"] == registry.get("mine").name


class BusyRegistry(TaskRegistry):
    """A registry whose folder another server has locked, or whose disk is full, for some puts."""

    def __init__(self, registry: TaskRegistry, *refusals: int) -> None:
        """Refuse to write a task; each refusal names the seconds to wait."""
        super().__init__(registry.folder, registry.owner)
        self.refusals = list(refusals)

    def put(
        self, task: Task, fit: Mapping[str, Any] | None = None, files: Path | None = None
    ) -> bool:
        if self.refusals:
            raise Unavailable("locked", retry_after=self.refusals.pop(0))
        return super().put(task, fit, files)


@dataclass
class Pauses:
    """Records the pauses that are asked for; each ends when the gate is open."""

    seconds: list[float] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self.gate.wait()


async def test_a_task_that_cannot_be_written_at_present_is_written_later(tmp_path: Path) -> None:
    pauses = Pauses()
    pauses.gate.set()
    async with bench() as b:
        registry = BusyRegistry(fit_registry(b.engine, tmp_path), 10, 60)

        run = fit_run(tmp_path, b, registry=registry, pause=pauses.wait)
        task = await run.run(lambda: None)

    assert pauses.seconds == [10, 60]
    assert task["name"] == registry.get("mine").name
    assert (tmp_path / "mine.fit" / "head.safetensors").is_file()


async def test_a_task_that_cannot_be_written_for_long_fails_the_fit(tmp_path: Path) -> None:
    pauses = Pauses()
    pauses.gate.set()
    async with bench() as b:
        registry = BusyRegistry(fit_registry(b.engine, tmp_path), *[60] * 100)
        run = fit_run(tmp_path, b, registry=registry, pause=pauses.wait)

        with pytest.raises(Unavailable, match="locked"):
            await run.run(lambda: None)

    assert sum(pauses.seconds) == 900


async def test_a_fit_is_cancelled_between_two_attempts_to_publish_it(tmp_path: Path) -> None:
    pauses = Pauses()
    async with bench() as b:
        registry = BusyRegistry(fit_registry(b.engine, tmp_path), 10)
        run = fit_run(tmp_path, b, registry=registry, pause=pauses.wait)
        running = asyncio.ensure_future(run.run(lambda: None))
        while not (pauses.seconds or running.done()):  # noqa: ASYNC110  # the attempt is made in a thread
            await asyncio.sleep(0.001)

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
    assert not (tmp_path / "mine.json").exists()


async def test_a_cancellation_in_an_attempt_that_fails_is_in_time(tmp_path: Path) -> None:
    pauses = Pauses()
    async with bench() as b:
        full = Unavailable("full", retry_after=10)
        registry = SlowRegistry(fit_registry(b.engine, tmp_path), full)
        run = fit_run(tmp_path, b, registry=registry, pause=pauses.wait)
        running = asyncio.ensure_future(run.run(lambda: None))

        await cancelled_while_published(running, registry)

        with pytest.raises(asyncio.CancelledError):
            await running
    assert not pauses.seconds


async def test_a_scratch_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("in the way")
    async with bench() as b:
        run = fit_run(tmp_path, b)

        with pytest.raises(WorkFailedError, match=r"kept in .*scratch \(ELMO_SCRATCH\): File exis"):
            await run.run(lambda: None)


async def test_a_model_that_fails_on_a_sentence_stops_the_fit(tmp_path: Path) -> None:
    examples = [{"tokens": ["!raises"], "label": "x"}, *({"tokens": [c], "label": c} for c in "ab")]
    async with bench() as b:
        run = fit_run(tmp_path, b, examples=examples)

        with pytest.raises(WorkFailedError, match="/examples/0: the model fails"):
            await run.run(lambda: None)


async def test_a_task_that_cannot_be_written_is_an_error_of_the_api(tmp_path: Path) -> None:
    async with bench() as b:
        run = fit_run(tmp_path, b)
        (tmp_path / "mine.json" / "in the way").mkdir(parents=True)

        with pytest.raises(ServiceError, match="mine"):
            await run.run(lambda: None)


async def test_the_files_of_another_models_task_stay_as_they_are(tmp_path: Path) -> None:
    """The other model gets its task while the fit runs."""
    head = tmp_path / "mine.fit" / "head.safetensors"
    async with bench() as b:
        run = fit_run(tmp_path, b)
        head.parent.mkdir()
        head.write_bytes(b"of the other model")
        task = {"name": "mine", "weights": [1, 2, 3], "model": "other"}
        (tmp_path / "mine.json").write_text(json.dumps(task))

        with pytest.raises(Conflict, match="it belongs to model 'other'"):
            await run.run(lambda: None)

    assert head.read_bytes() == b"of the other model"


async def begun(b: Bench) -> None:
    """Wait until a worker computes a batch."""
    while not b.batches:  # noqa: ASYNC110  # the pieces come through threads
        await asyncio.sleep(0.001)
