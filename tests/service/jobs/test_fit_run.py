"""One fit from its vectors to the task file, with a real process that trains."""

import asyncio
import json
import threading
from pathlib import Path

import pytest

from elmo_serve.errors import Conflict, ServiceError, UnknownTask
from elmo_serve.jobs.fit_run import FitModel, FitRun, FitStoppedError
from elmo_serve.jobs.job_folder import JobFolder
from elmo_serve.metrics import Metrics
from tests.support.engines import Bench, bench
from tests.support.fit_tasks import SOURCE, fit_model, fit_request
from tests.support.gated_worker import GatedWorker


def fit_run(folder: Path, model: FitModel) -> tuple[FitRun, JobFolder]:
    text, plan = fit_request()
    jobs = JobFolder(folder)
    (folder / ".jobs").mkdir()
    return FitRun("0" * 16, "mine", model, plan, text, SOURCE, jobs, Metrics()), jobs


def files_of(folder: Path, name: str) -> list[Path]:
    return list(folder.glob(f"{name}*"))


async def test_a_fit_publishes_its_task_with_the_scores(tmp_path: Path) -> None:
    progress: list[float] = []
    async with bench() as b:
        model = fit_model(b.engine, tmp_path)
        run, jobs = fit_run(tmp_path, model)

        task = await run.run(lambda: progress.append(run.progress))
        jobs.close()

    assert progress == sorted(progress) and progress[-1] == 1.0
    assert list(run.scores["mixtures"]) == [
        *("learned", "average", "sum", "layer 0", "layer 1", "layer 2", "top")
    ]
    assert run.scores["mixtures"]["top"] == run.scores["mixtures"]["layer 2"]
    kept = model.registry.get("mine")
    assert task["weights"] == list(kept.weights) and task["gamma"] == kept.gamma
    fit = json.loads((tmp_path / "mine.json").read_bytes())["fit"]
    assert fit["job"] == "0" * 16 and fit["measure"] == run.scores["measure"]
    assert set(fit["scores"]) == set(run.scores["mixtures"])
    assert (tmp_path / "mine.fit" / "head.safetensors").is_file()


async def test_a_cancelled_fit_leaves_nothing(tmp_path: Path) -> None:
    """It is cancelled while its first piece is computed."""
    held = GatedWorker(is_open=False)
    async with bench(lambda: held) as b:
        model = fit_model(b.engine, tmp_path)
        run, jobs = fit_run(tmp_path, model)
        running = asyncio.ensure_future(run.run(lambda: None))
        await begun(b)

        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        held.open()
        jobs.close()

    with pytest.raises(UnknownTask):
        model.registry.get("mine")
    assert not files_of(tmp_path, "mine")


async def test_a_fit_that_is_cancelled_while_it_is_published_is_done(tmp_path: Path) -> None:
    """Every cancellation is too late, also a second one: the task is there."""
    async with bench() as b:
        model = fit_model(b.engine, tmp_path)
        text, plan = fit_request()
        jobs = SlowFolder(tmp_path)
        (tmp_path / ".jobs").mkdir()
        run = FitRun("0" * 16, "mine", model, plan, text, SOURCE, jobs, Metrics())
        running = asyncio.ensure_future(run.run(lambda: None))
        await asyncio.to_thread(jobs.begun.wait)

        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        jobs.gate.set()

        assert (await running)["name"] == model.registry.get("mine").name
        jobs.close()


class SlowFolder(JobFolder):
    """A folder that publishes when its gate is set."""

    def __init__(self, tasks: Path) -> None:
        super().__init__(tasks)
        self.begun, self.gate = threading.Event(), threading.Event()

    def publish(self, job_id: str, name: str) -> None:
        self.begun.set()
        self.gate.wait()
        super().publish(job_id, name)


async def test_a_model_that_fails_on_a_sentence_stops_the_fit(tmp_path: Path) -> None:
    examples = [{"tokens": ["!raises"], "label": "x"}, *({"tokens": [c], "label": c} for c in "ab")]
    async with bench() as b:
        model = fit_model(b.engine, tmp_path)
        text, plan = fit_request(examples=examples)
        jobs = JobFolder(tmp_path)
        (tmp_path / ".jobs").mkdir()
        run = FitRun("0" * 16, "mine", model, plan, text, SOURCE, jobs, Metrics())

        with pytest.raises(FitStoppedError, match="/examples/0: the model fails"):
            await run.run(lambda: None)
        jobs.close()


async def test_a_task_that_cannot_be_written_is_an_error_of_the_api(tmp_path: Path) -> None:
    async with bench() as b:
        model = fit_model(b.engine, tmp_path)
        run, jobs = fit_run(tmp_path, model)
        (tmp_path / "mine.json" / "in the way").mkdir(parents=True)

        with pytest.raises(ServiceError, match="mine"):
            await run.run(lambda: None)
        jobs.close()


async def test_the_files_of_another_models_task_stay_as_they_are(tmp_path: Path) -> None:
    """The other model gets its task while the fit runs."""
    head = tmp_path / "mine.fit" / "head.safetensors"
    async with bench() as b:
        model = fit_model(b.engine, tmp_path)
        run, jobs = fit_run(tmp_path, model)
        head.parent.mkdir()
        head.write_bytes(b"of the other model")
        task = {"name": "mine", "weights": [1, 2, 3], "model": "other"}
        (tmp_path / "mine.json").write_text(json.dumps(task))

        with pytest.raises(Conflict, match="it belongs to model 'other'"):
            await run.run(lambda: None)
        jobs.close()

    assert head.read_bytes() == b"of the other model"


async def begun(b: Bench) -> None:
    """Wait until a worker computes a batch."""
    while not b.batches:  # noqa: ASYNC110  # the pieces come through threads
        await asyncio.sleep(0.001)
