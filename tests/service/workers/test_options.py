"""The workers of a model, by the settings, and the process of one: it loads, computes, ends."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from elmo_model.checkpoints import load
from elmo_serve.processes.arena import Arena, Bytes, view
from elmo_serve.processes.heartbeat import LOADING_SECONDS, Alive
from elmo_serve.selection import Output
from elmo_serve.settings import Settings
from elmo_serve.settings.values import ModelSource
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    Message,
    ModelInfo,
    Ready,
    RunnerSettings,
)
from elmo_serve.workers.options import worker_options, worker_process
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL
from tests.support.vectors import all_close
from tests.support.workers import GatedWorker

TOP = Output(layers=(2,))
SENTENCES = [["a", "b"], ["c", "d"], ["Zürich", ""]]


def made_with(
    hardware: Hardware, known: Ready | None = None, model: str = "small", **settings: object
) -> list[RunnerSettings]:
    """Return the settings of each worker that is made for a model."""
    made: list[RunnerSettings] = []

    def make(runner: RunnerSettings, _arena: Arena) -> GatedWorker:
        made.append(runner)
        return GatedWorker()

    spec = ModelSource(model, str(SMALL))
    for worker in worker_options(spec, Settings.model_validate(settings), Arena(), hardware, make):
        worker.make(known)
    return made


@pytest.mark.parametrize(
    ("cores", "settings", "threads"),
    [
        (6, {}, [3, 3]),
        (8, {"models": f"a={SMALL},b={SMALL}"}, [2, 2]),
        (1, {}, [1, 1]),
    ],
)
def test_the_workers_of_all_models_share_the_cores(
    cores: int, settings: dict[str, Any], threads: list[int]
) -> None:
    made = made_with(Hardware(0, cores=cores), workers_per_device=2, **settings)

    assert [each.threads for each in made] == threads


def test_every_gpu_has_workers() -> None:
    gpus = made_with(Hardware(3, cores=8), workers_per_device=2)
    names = [f"cuda:{index}" for index in range(3) for _ in "12"]
    assert [(each.device, each.threads) for each in gpus] == [(name, 1) for name in names]


def test_a_model_has_its_own_precision() -> None:
    settings = {"models": f"a={SMALL},b={SMALL}", "precision": "float32,b=int8"}
    made = [made_with(Hardware(0), model=name, **settings) for name in "ab"]  # type: ignore[arg-type]

    assert [each.precision for (each,) in made] == ["float32", "int8"]


def test_a_worker_after_another_one_is_given_its_report() -> None:
    known = Ready(ModelInfo("small", "0", "fake", 3, 4, 0, "bfloat16"), trials={"step": (2, 4)})

    assert [each.known for each in made_with(Hardware(0), known)] == [known]


def test_a_device_that_never_starts_is_tried_every_five_minutes() -> None:
    """Each start imports torch and reads the checkpoint, beside devices that work."""
    found = Settings.model_validate({"devices": "cpu"})
    model = ModelSource("small", str(SMALL))
    (worker,) = worker_options(model, found, Arena(), Hardware(0, cores=1))

    assert worker.given_up_delay == 300


class Front:
    """The server's side of a worker."""

    def __init__(self, model: Path) -> None:
        self.arena = Arena()
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.beats: list[Alive] = []
        self.ended: asyncio.Queue[str] = asyncio.Queue()
        settings = RunnerSettings(str(model), "cpu", "float32", 1, 64)
        self.worker = worker_process(settings, self.arena)

    def on_message(self, message: Message | Alive) -> None:
        if isinstance(message, Alive):
            self.beats.append(message)
        else:
            self.messages.put_nowait(message)

    def batch(self, number: int, width: int) -> tuple[Batch, Bytes]:
        size = TOP.size(2, width)
        block = self.arena.acquire(len(SENTENCES) * size)
        offsets = tuple(range(0, len(SENTENCES) * size, size))
        texts = tuple(map(orjson.dumps, SENTENCES))
        return Batch(number, texts, (TOP,) * len(SENTENCES), offsets, 12, 12, block), block.array


@asynccontextmanager
async def front(model: Path) -> AsyncIterator[Front]:
    made = Front(model)
    made.worker.start(made.on_message, made.ended.put_nowait)
    try:
        async with asyncio.timeout(600):  # a lost message fails the test instead of hanging it
            yield made
    finally:
        await made.worker.stop()


async def test_batches_are_computed_in_order_in_another_process(
    tmp_path: Path,
) -> None:
    elmo = load(write_pair(tmp_path))
    expected = [layers[-1].numpy() for layers in elmo.embed(SENTENCES)]
    async with front(tmp_path) as f:
        ready = await f.messages.get()
        assert isinstance(ready, Ready)
        assert f.beats[0] == Alive(LOADING_SECONDS)
        assert ready.info.revision == elmo.origin.revision
        assert f.worker.pid not in (None, os.getpid())
        batches = [f.batch(number, ready.info.dimension) for number in (1, 2)]
        batch, _ = batches[0]
        impossible = replace(batch, id=9, outputs=(Output(layers=(77,)),) * 3)
        for batch in (impossible, *(batch for batch, _ in batches)):
            f.worker.send(batch)
        failed = await f.messages.get()
        assert isinstance(failed, Failed) and failed.batch == 9 and not failed.memory
        for batch, array in batches:
            done = await f.messages.get()
            assert isinstance(done, Done) and done.batch == batch.id
            found = view(array, 0, (3, 2, ready.info.dimension), "float32")
            all_close(found, expected)
