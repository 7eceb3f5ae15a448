"""On a CUDA device: a start in each precision, and a real lack of memory."""

from pathlib import Path

import numpy as np
import orjson
import pytest
import torch

from elmo_serve.processes.arena import Arena
from elmo_serve.selection import Output
from elmo_serve.workers.messages import Batch, Done, Failed, RunnerSettings
from elmo_serve.workers.model_loading import load
from elmo_serve.workers.model_worker import Runner
from tests.support.checkpoints import write_pair
from tests.support.cuda import DEVICE, KIND, NEEDS_DEVICE
from tests.support.workers import served

pytestmark = [pytest.mark.cuda, NEEDS_DEVICE]

MEAN = Output(layers=(2,), pooling="mean")
DIMENSION = 8


def loaded(folder: Path, precision: str = "float32") -> Runner:
    return load(RunnerSettings(str(folder), DEVICE, precision, 1, 4096))


def batch(arena: Arena, rows: int, tokens: int) -> tuple[Batch, np.ndarray]:
    size = MEAN.size(tokens, DIMENSION)
    block = arena.acquire(rows * size)
    texts = (orjson.dumps(["word"] * tokens),) * rows
    offsets = tuple(range(0, rows * size, size))
    cost = rows * (tokens + 2)
    return Batch(1, texts, (MEAN,) * rows, offsets, cost, cost, block), block.array


@pytest.mark.parametrize("precision", ["float32", "bfloat16", *["float16"] * (KIND == "cuda")])
def test_a_start_passes_its_self_test(tmp_path: Path, precision: str) -> None:
    runner = loaded(write_pair(tmp_path), precision)
    arena, size = Arena(), MEAN.size(20, DIMENSION)
    batches, memories = zip(*(batch(arena, rows, 20) for rows in (3, 1, 40, 2)), strict=True)
    done = served(runner, *batches)  # each is launched while the one before is copied
    assert all(isinstance(each, Done) and not each.not_finite for each in done)
    for each, memory in zip(batches, memories, strict=True):
        rows = memory[: len(each.sentences) * size].view(np.float32).reshape(-1, DIMENSION)
        first = memories[0][:size].view(np.float32)
        np.testing.assert_allclose(rows, np.broadcast_to(first, rows.shape), rtol=0, atol=0.05)
        assert first.any()


@pytest.mark.skipif(KIND == "cpu", reason="the memory of a host has no bound")
def test_a_lack_of_memory_fails_one_batch_only(tmp_path: Path) -> None:
    runner, arena = loaded(write_pair(tmp_path)), Arena()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    room = 64 << 20
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved(0) + room) / total, 0)
    try:
        (large, memory), (small, other) = batch(arena, 2000, 500), batch(arena, 20, 50)
        failed, done = served(runner, large, small)  # the vectors of the large one take 96 MB
        del memory, other  # they were in use until now
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)
    assert isinstance(failed, Failed) and failed.memory, failed
    assert isinstance(done, Done), done
