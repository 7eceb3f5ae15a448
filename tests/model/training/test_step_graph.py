"""Steps by a captured graph are the steps that single launches take."""

from functools import partial
from pathlib import Path

import pytest
import torch

from elmo_model.training import trainer
from elmo_model.training.command import train
from elmo_model.training.optimiser import Optimisers, optimiser_for
from elmo_model.training.step_graph import StepGraph
from tests.support.recorded_graph import RecordedGraph
from tests.support.training_runs import losses, options, weights


@pytest.mark.parametrize("softmax", ["sampled", "full"])
def test_a_run_by_graphs_has_the_numbers_of_a_run_without(
    tmp_path: Path, softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates, state, masks and weights are read where they were when the step was captured.

    A line of the log has the losses of three steps, which the next one must not overwrite.
    """
    usual = {"softmax": softmax, "recurrent_noise": 0.0, "threads": 1, "heldout": None}
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
