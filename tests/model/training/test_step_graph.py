"""Steps by a captured graph are the steps that single launches take."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmo_model.training import trainer
from elmo_model.training.batches import Batch
from elmo_model.training.command import train
from elmo_model.training.optimiser import Optimisers, optimiser_for
from elmo_model.training.step_graph import StepGraph
from tests.model.training.test_batches import batches
from tests.support.recorded_graph import RecordedGraph
from tests.support.training_runs import losses, options, weights


def learn(batch: Batch) -> tuple[Tensor, Tensor]:
    sums = torch.stack([values.double().sum() for values in batch.tensors])
    return sums, sums[0]


def test_a_graph_reads_each_batch_and_is_captured_again_for_other_shapes() -> None:
    captures = RecordedGraph()
    graph = StepGraph(learn, torch.device("cpu"), lambda _: captures)
    drawn, wider = batches(chunk=None), batches(chunk=None, rows=4).next_batch(0)
    for batch in (*map(drawn.next_batch, range(4)), wider, wider):
        assert batch is not None
        expected = learn(batch)
        for found, own in zip(graph(batch), expected, strict=True):
            assert torch.equal(found, own)
    assert (captures.captures, captures.replays) == (2, 4)


@pytest.mark.parametrize("softmax", ["sampled", "full"])
def test_a_run_by_graphs_has_the_numbers_of_a_run_without(
    tmp_path: Path, softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, state, masks and weights are read where they were when the step was captured."""
    usual = {"softmax": softmax, "recurrent_noise": 0.0, "threads": 1, "heldout": None}
    plain, captured = (options(tmp_path, name, **usual) for name in ("plain", "captured"))
    train(plain)
    captures = RecordedGraph()
    monkeypatch.setattr(trainer, "_CHUNK", None)  # batches of fixed shapes
    monkeypatch.setattr(
        trainer, "optimiser_for", lambda *of: Optimisers(*optimiser_for(*of).parts, capturable=True)
    )
    monkeypatch.setattr(trainer, "StepGraph", partial(StepGraph, captures=lambda _: captures))
    train(captured)
    assert captures.replays >= 8
    for one, other in zip(losses(captured.run), losses(plain.run), strict=True):
        assert one == pytest.approx(other, abs=1e-5)  # products of more rows, in another order
    for name, value in weights(plain.run).items():
        torch.testing.assert_close(weights(captured.run)[name], value, rtol=0, atol=1e-5)
