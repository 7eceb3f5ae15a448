"""A fit in a child process that is supervised: replaced once, and never waited for in vain."""

import asyncio
from pathlib import Path

import pytest

from elmo_serve.jobs.bulk_queue import WorkFailedError
from elmo_serve.jobs.child import FitChild, ScratchFile
from elmo_serve.jobs.plan import Fits, Scored
from elmo_serve.metrics import Metrics
from tests.support.fit_tasks import FitHere, fit_task


class Job:
    """A fit in the process of the test, whose first processes die for these reasons."""

    def __init__(self, file: ScratchFile, *deaths: str) -> None:
        self.metrics = Metrics()
        self.messages: list[Fits | Scored] = []
        self.processes: list[FitHere] = []
        self._deaths = list(deaths)
        self.child = FitChild(file, self.messages.append, self.metrics, self._spawn)

    def _spawn(self, file: ScratchFile) -> FitHere:
        self.processes.append(FitHere(file, self._deaths))
        return self.processes[-1]

    @property
    def lost(self) -> float | None:
        return self.metrics.registry.get_sample_value("elmo_failures_total", {"reason": "fit_lost"})


async def test_a_lost_process_gets_its_task_again(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        task, job = fit_task(file, tmp_path / "job"), Job(file, "was killed by SIGKILL")
        job.child.start()

        job.child.train(task)
        found = await job.child.ended()
        await job.child.stop()

    assert len(found.weights) == 3 and found.scored["scored_on"] == "test"
    assert [m.done for m in job.messages if isinstance(m, Fits)] == [1, 1, 2, 3, 4, 5, 6]
    assert job.lost == 1


async def test_the_second_loss_fails_the_fit(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        task = fit_task(file, tmp_path / "job")
        job = Job(file, "was killed by SIGSEGV", "was killed by SIGKILL")
        job.child.start()

        job.child.train(task)
        with pytest.raises(WorkFailedError, match="killed by SIGKILL, the second one of this job"):
            await job.child.ended()
        await job.child.stop()

    assert job.lost == 2


async def test_a_task_that_cannot_be_learned_says_why(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("in the way")
    with ScratchFile(tmp_path) as file:
        task, job = fit_task(file, tmp_path / "job"), Job(file)
        job.child.start()

        job.child.train(task)
        with pytest.raises(WorkFailedError) as found:
            await job.child.ended()
        await job.child.stop()

    assert "\n" not in str(found.value)


async def test_a_stop_ends_the_process_and_the_waiting(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        job = Job(file)
        job.child.start()
        waiting = asyncio.ensure_future(job.child.ended())
        await asyncio.sleep(0)  # it waits

        await job.child.stop()

        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [process.is_killed for process in job.processes] == [True]
