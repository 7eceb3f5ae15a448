"""Steps by a captured graph are the steps that single launches take."""

from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmo_model.training import trainer
from elmo_model.training.batches import Batch, Direction
from elmo_model.training.command import train
from elmo_model.training.optimiser import Optimisers, optimiser_for
from elmo_model.training.step_graph import StepGraph
from tests.support.cuda import PretendCuda, RecordedGraph
from tests.support.training import losses, options, weights


@pytest.mark.parametrize("samples", [8, 0])
def test_a_run_by_graphs_has_the_numbers_of_a_run_without(
    tmp_path: Path, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, state, masks and weights are read where they were when the step was captured.

    A line of the log has the losses of three steps, which the next one must not overwrite.
    """
    usual = {"samples": samples, "recurrent_noise": 0.0, "threads": 1, "heldout": None}
    usual["log_every"] = 3
    plain, captured = (options(tmp_path, name, **usual) for name in ("plain", "captured"))
    train(plain)
    captures = RecordedGraph()
    monkeypatch.setattr(trainer, "_CHUNK", None)  # batches of fixed shapes
    monkeypatch.setattr(
        trainer, "optimiser_for", lambda *of: Optimisers(*optimiser_for(*of).parts, capturable=True)
    )
    monkeypatch.setattr(trainer, "StepGraph", partial(StepGraph, captures=lambda _: captures))
    train(captured)
    assert captures.captures > 1 and captures.replays >= 8  # one for each shape of batches
    for one, other in zip(losses(captured.run), losses(plain.run), strict=True):
        assert one == pytest.approx(other, abs=1e-5)  # products of more rows, in another order
    for name, value in weights(plain.run).items():
        torch.testing.assert_close(weights(captured.run)[name], value, rtol=0, atol=1e-5)


def test_all_captures_of_a_run_take_place_on_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stream keeps a workspace, and torch gives its 32 streams out again in turns."""
    cuda = PretendCuda(monkeypatch)

    def learn(batch: Batch) -> tuple[Tensor, Tensor]:
        return batch.characters[0].sum(), batch.characters[0].max()

    graph = StepGraph(learn, torch.device("cpu"))
    empty = Direction(*(torch.zeros(0) for _ in fields(Direction)))
    for words in (2, 3, 4):
        total, _ = graph(Batch((torch.ones(words, 5),), (empty, empty), ()))
        assert total == 5 * words
    assert len(cuda.streams) == 1
    assert cuda.pools == [None] * 3  # the memory of a graph is freed with it
