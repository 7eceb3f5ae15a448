"""The log of a run grows line by line and survives a crash; figures are means over an interval."""

from pathlib import Path

import pytest
import torch

from elmo_model.training.log import Figures, Log, log_line, read
from tests.support.corpora import corpus_of
from tests.support.training_runs import options


def test_lines_after_the_snapshot_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = Log(path, 0)
    for step in (1, 2, 3):
        log.write({"step": step})
    with path.open("a") as file:
        file.write('{"step": 4, "lo')  # cut off by a crash
    assert [line["step"] for line in read(path)] == [1, 2, 3]
    Log(path, 2).write({"step": 5})
    assert [line["step"] for line in read(path)] == [1, 2, 5]


def test_a_line_holds_means_since_the_last_line(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    plan = chosen.plan(corpus_of([["a"]]), 30, chosen.config())
    figures = Figures(plan, 2, 10.0)
    figures.add(torch.tensor([1.0, 3.0]), torch.tensor(4.0))
    figures.add(torch.tensor([3.0, 5.0]), torch.tensor(6.0))
    line = figures.line(4, 12.0, figures.losses())
    assert (line["loss_forward"], line["loss_backward"], line["loss"]) == (2.0, 4.0, 3.0)
    assert line["gradient_norm"] == 5.0 and line["tokens"] == 80
    assert line["tokens_per_second"] == pytest.approx(20.0)
    assert log_line(line).startswith("20 tokens/s  loss 3.000  perplexity 7.4 forward")
    figures.restart(4, 12.0)
    figures.add(torch.tensor([1.0, 1.0]), torch.tensor(1.0))
    assert figures.losses().tolist() == [1.0, 1.0]
