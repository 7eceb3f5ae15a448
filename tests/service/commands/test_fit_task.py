"""The result of a fit: the table for the terminal, and the files that are kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from elmo_model.network.elmo import Origin
from elmo_model.tasks.comparison import Comparison, Row, Scored
from elmo_model.tasks.fitter import FitOptions, Fitted, MixtureHead
from elmo_model.tasks.scores import Score
from elmo_model.tasks.source import LayerSource
from elmo_serve.commands.fit_task import FittedTask, table


def score(value: float, *residuals: float) -> Score:
    return Score(value, dict(enumerate(residuals)))


def row(name: str, first: Score, second: Score, *validation: Score) -> Row:
    weights = ((0.1, 0.6, 0.3), (0.3, 0.6, 0.1))
    return Row(name, weights, (first, second), validation or (first, second))


HEAD = MixtureHead(3, 4, 2)
torch.nn.init.normal_(HEAD.linear.weight)
FOUND = Comparison(
    rows=(
        row("learned", score(0.5, 0.1, -0.1), score(0.7, 0.1, -0.1)),
        row("average", score(0.4, -0.1, 0.1), score(0.4, -0.1, 0.1)),
        row("layer 0", score(0.1, 0.1, -0.1), score(0.1, 0.1, -0.1)),
    ),
    best=Fitted(("B-Zürich", "O"), HEAD, score(1, 0), 3),
    scored=Scored("test", "span_f1", "", "token", 1_234, 60, 3),
    train_examples=2_000,
    data="ab" * 32,
)


def test_the_table_has_a_line_a_mixture_with_its_error_and_says_which_one_to_take() -> None:
    """The error of the learned row is sqrt(2 / 1 * 0.02) = 0.2, of learned - average 0.4."""
    assert table(FOUND).splitlines() == [
        "span F1 on 3 spans, 60 sentences, 1,234 tokens of the test part, %",
        "               score ± error  seeds",
        "  learned     60.00 ± 20.00  14.14  *",
        "  average     40.00 ± 20.00   0.00  *",
        "  layer 0     10.00 ± 20.00   0.00",
        "error: standard error over sentences; seeds: standard deviation between seeds",
        "*: no difference from the best (paired by sentence, 95 %)",
        "learned weights",
        "  layer 0     0.200 ████████",
        "  layer 1     0.600 ████████████████████████",
        "  layer 2     0.200 ████████",
        "take average: it equals the best, learned, on the validation part",
    ]


def test_the_row_to_take_is_chosen_on_the_validation_part() -> None:
    wins = row("layer 1", *[score(0.0, 0.1, -0.1)] * 2, *[score(0.9, -0.1, 0.1)] * 2)

    found = replace(FOUND, rows=(*FOUND.rows, wins))

    assert found.recommended == ("layer 1", "layer 1") and "layer 1" not in found.equal
    assert table(found).endswith("take layer 1: it is the best on the validation part")


def test_one_seed_has_no_spread_and_one_sentence_no_error() -> None:
    alone = Row("learned", ((0.2, 0.6, 0.2),), (score(0.5, 0),), (score(0.5, 0),))
    scored = replace(
        FOUND.scored, measure="accuracy", reason="the scored part has no span", spans=0
    )

    lines = table(replace(FOUND, rows=(alone, replace(alone, name="average")), scored=scored))

    first, _, learned, *_ = lines.splitlines()
    assert first.startswith("accuracy (the scored part has no span) on 60 sentences")
    assert learned.split() == ["learned", "50.00", "±", "-", "-", "*"]


def test_the_files_hold_the_head_the_report_and_the_task(tmp_path: Path) -> None:
    origin = Origin(name="small", format="allennlp", revision="0123abcd")
    source = LayerSource(origin, "moses", "en", lambda _: [])
    (tmp_path / "ner.json").write_text("old")

    task, folder = FittedTask("ner", FitOptions(seeds=2), FOUND, source).write(tmp_path)

    with safe_open(folder / "head.safetensors", "pt") as file:
        assert torch.equal(file.get_tensor("weight"), HEAD.linear.weight)
        assert torch.equal(file.get_tensor("bias"), HEAD.linear.bias)
        assert json.loads(file.metadata()["labels"]) == ["B-Zürich", "O"]
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (report["model"]["revision"], report["options"]["seeds"]) == ("0123abcd", 2)
    assert (report["scored_on"], report["scored_spans"], report["classes"][1]) == ("test", 3, "O")
    assert (report["measure"], report["scheme"], report["take"]) == ("span_f1", "IOB2", "average")
    learned = report["mixtures"]["learned"]
    assert (learned["mean"], learned["error"]) == pytest.approx((0.6, 0.2))
    assert learned["weights"] == [[0.1, 0.6, 0.3], [0.3, 0.6, 0.1]]
    assert (learned["scores"], learned["equals_best"]) == ([0.5, 0.7], True)
    fit = json.loads(task.read_text(encoding="utf-8"))["fit"]
    assert (fit["model"], fit["revision"], fit["data"]) == ("small", "0123abcd", "ab" * 32)
    assert (fit["kind"], fit["seeds"], fit["scored_on"]) == ("token", 2, "test")
    assert fit["measure"] == "span_f1"
    assert (fit["score"], fit["error"], fit["spread"]) == pytest.approx((0.6, 0.2, 0.02**0.5))
