"""A fit in a child process that is supervised: replaced once, and never waited for in vain."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from elmo_serve.jobs.fit_child import FitChild, FitFailedError
from elmo_serve.jobs.fit_messages import Fits, Scored
from elmo_serve.jobs.scratch_files import ScratchFiles
from elmo_serve.metrics import Metrics
from tests.support.fit_tasks import fit_task
from tests.support.processes import children

LOG = ("warning", "text")


class Job:
    """A fit whose first processes, `deaths` of them, are killed at their first message."""

    def __init__(self, files: ScratchFiles, deaths: int = 0) -> None:
        self.metrics = Metrics()
        self.messages: list[Fits | Scored] = []
        self._deaths = deaths
        self._killed: set[int] = set()
        self.child = FitChild(files, self._on_message, self.metrics, LOG, niceness=0)

    def _on_message(self, message: Fits | Scored) -> None:
        self.messages.append(message)
        for pid in set(children(os.getpid())["fit"]) - self._killed:
            if len(self._killed) < self._deaths:
                os.kill(pid, signal.SIGKILL)
                self._killed.add(pid)

    @property
    def lost(self) -> float | None:
        return self.metrics.registry.get_sample_value("elmo_failures_total", {"reason": "fit_lost"})


async def test_a_lost_process_gets_its_task_again(tmp_path: Path) -> None:
    with ScratchFiles(tmp_path) as files:
        task, job = fit_task(files, tmp_path / "job"), Job(files, deaths=1)
        job.child.start()

        found = await job.child.train(task.train, *task.segments)
        await job.child.stop()

    assert len(found.weights) == 3 and found.scored_on == "test"
    assert [m.done for m in job.messages if isinstance(m, Fits)][-6:] == [1, 2, 3, 4, 5, 6]
    assert job.lost == 1


async def test_the_second_loss_fails_the_fit(tmp_path: Path) -> None:
    with ScratchFiles(tmp_path) as files:
        task, job = fit_task(files, tmp_path / "job"), Job(files, deaths=2)
        job.child.start()

        with pytest.raises(FitFailedError, match="killed by SIGKILL, the second one of this job"):
            await job.child.train(task.train, *task.segments)
        await job.child.stop()

    assert job.lost == 2


async def test_a_task_that_cannot_be_learned_says_why(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("in the way")
    with ScratchFiles(tmp_path) as files:
        task, job = fit_task(files, tmp_path / "job"), Job(files)
        job.child.start()

        with pytest.raises(FitFailedError) as found:
            await job.child.train(task.train, *task.segments)
        await job.child.stop()

    assert "\n" not in str(found.value)


async def test_a_stop_ends_the_process_and_the_waiting(tmp_path: Path) -> None:
    with ScratchFiles(tmp_path) as files:
        job = Job(files)
        job.child.start()
        waiting = asyncio.ensure_future(job.child.ended())
        await asyncio.sleep(0)  # it waits

        await job.child.stop()

        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not children(os.getpid())["fit"]
