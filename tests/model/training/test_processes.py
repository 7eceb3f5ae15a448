"""Several processes share the rows of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from elmo_model.training import TrainingError
from elmo_model.training.command import TrainOptions, train
from elmo_model.training.processes import Processes, process_group
from tests.support.fork_server import forked
from tests.support.training_runs import arguments, environment, losses, options, weights


@contextmanager
def group(command: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make this process the first of two, as torchrun does; the second one runs a command.

    The body begins when the second process has come, and may use the group once.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    usual = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    second = environment() | usual | {"RANK": "1", "LOCAL_RANK": "1"}
    before = store.num_keys()
    child = forked(command, second)
    try:
        while store.num_keys() == before:
            assert child.poll() is None
            time.sleep(0.01)
        for name, value in (usual | {"RANK": "0", "LOCAL_RANK": "0"}).items():
            monkeypatch.setenv(name, value)
        yield
        assert child.wait(120) == 0
    finally:
        child.kill()
    for name in (*usual, "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name)


def test_two_processes_train_as_one_and_one_continues_their_run(
    tmp_path: Path, whole: TrainOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Adagrad: products in bfloat16, which Muon has, would make more of other roundings
    usual: dict[str, Any] = {"dropout": 0.0, "recipe": "reference", "heldout": None}
    usual |= {"weights": str(whole.run / "model.safetensors"), "shape": None}
    usual["softmax_steps"] = 6  # the softmax alone, whose gradients are averaged by the run
    alone = options(tmp_path, "alone", **usual)
    train(alone)
    both = options(tmp_path, "both", **usual)
    # stops when the processes exchange their flags for the first time, at step 10
    stopped = replace(both, minutes=0.0)
    command = ["elmo", "train", *arguments(stopped)]
    with group(command, monkeypatch):
        train(stopped)
    assert losses(both.run)[-1][0] == 10
    train(both)

    np.testing.assert_allclose(losses(both.run), losses(alone.run), rtol=0, atol=1e-5)
    ours, theirs = weights(both.run), weights(alone.run)
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-5)


def test_the_others_wait_for_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process encodes the text and measures alone; torch gives up after 10 minutes."""
    waits = list[timedelta]()
    for name in ("init_process_group", "new_group"):
        monkeypatch.setattr(distributed, name, lambda *_, timeout, **__: waits.append(timeout))
    for name in ("get_rank", "destroy_process_group"):
        monkeypatch.setattr(distributed, name, lambda: 0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match="LOCAL_RANK"), process_group("cpu"):
        pass
    monkeypatch.setenv("LOCAL_RANK", "0")
    with process_group("cpu"):
        assert len(waits) == 2 and min(waits) > timedelta(days=1)


def test_a_single_process_needs_no_group() -> None:
    with process_group("cpu") as alone:
        assert alone == Processes(0, 1, torch.device("cpu"))
        assert alone.first and alone.any(True) and not alone.any(False)
        assert [each.tolist() for each in alone.gather(torch.ones(2))] == [[1.0, 1.0]]
