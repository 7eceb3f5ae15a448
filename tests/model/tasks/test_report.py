"""The result of a fit: the table for the terminal, and the files that are kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from elmo_model.network.elmo import Origin
from elmo_model.tasks.command import FittedTask, text
from elmo_model.tasks.comparison import Comparison, Row, Scored
from elmo_model.tasks.examples import Examples
from elmo_model.tasks.fitter import FitOptions, Fitted, MixtureHead
from elmo_model.tasks.scores import Scores

LEARNED = Row(
    "learned",
    ((0.1, 0.6, 0.3), (0.3, 0.6, 0.1)),
    (Scores(0.9, 0.8, 0.7, 0.5), Scores(0.9, 0.8, 0.7, 0.7)),
)
HEAD = MixtureHead(3, 4, 2)
torch.nn.init.normal_(HEAD.linear.weight)
FOUND = Comparison(
    rows=(LEARNED, Row("average", ((1 / 3,) * 3,) * 2, (Scores(0.8, 0.7, 0.6, 0.4),) * 2)),
    best=Fitted(("B-Zürich", "O"), HEAD, Scores(1, 1, 1, 1), 3),
    scored_on="test",
    train_examples=2_000,
    scored=Scored("token", 1_234, 60, 3),
    data="ab" * 32,
)


def test_the_table_has_a_line_a_mixture_and_a_bar_of_its_mean_weight_a_layer() -> None:
    assert text(FOUND).splitlines() == [
        "span F1 on 3 spans, 60 sentences, 1,234 tokens of the test part, %",
        "  learned     60.00 ± 14.14",
        "  average     40.00 ± 0.00",
        "learned weights",
        "  layer 0     0.200 ████████",
        "  layer 1     0.600 ████████████████████████",
        "  layer 2     0.200 ████████",
    ]


def test_a_score_says_of_how_much_it_is() -> None:
    tagged = Examples.of_tokens([(["a", "b"], ["B-x", "O"]), (["c"], ["O"]), (["d"], ["B-x"])])
    pairs = Examples.of_pairs([((["a"], None), (["b"], None), "x")])

    assert Scored.of(tagged) == Scored("token", 4, 3, 2)
    accuracy = replace(FOUND, scored=Scored.of(pairs), scored_on="validation")
    assert text(accuracy).splitlines()[0] == "accuracy on 1 pair of the validation part, %"


def test_the_files_hold_the_head_the_report_and_the_task(tmp_path: Path) -> None:
    origin = Origin(name="small", format="allennlp", revision="0123abcd")
    fitted = FittedTask("ner", "token", FitOptions(seeds=2), FOUND, origin)
    (tmp_path / "ner.json").write_text("old")

    task, folder = fitted.write(tmp_path)

    with safe_open(folder / "head.safetensors", "pt") as file:
        assert torch.equal(file.get_tensor("weight"), HEAD.linear.weight)
        assert torch.equal(file.get_tensor("bias"), HEAD.linear.bias)
        assert json.loads(file.metadata()["labels"]) == ["B-Zürich", "O"]
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (report["model"]["revision"], report["options"]["seeds"]) == ("0123abcd", 2)
    assert (report["scored_on"], report["scored_spans"], report["classes"][1]) == ("test", 3, "O")
    learned = report["mixtures"]["learned"]
    assert learned["mean"] == pytest.approx(0.6)
    assert learned["weights"] == [[0.1, 0.6, 0.3], [0.3, 0.6, 0.1]]
    assert [scores["span_f1"] for scores in learned["scores"]] == [0.5, 0.7]
    fit = json.loads(task.read_text(encoding="utf-8"))["fit"]
    assert (fit["model"], fit["revision"], fit["data"]) == ("small", "0123abcd", "ab" * 32)
    assert (fit["kind"], fit["seeds"], fit["scored_on"]) == ("token", 2, "test")
    assert (fit["score"], fit["spread"]) == pytest.approx((0.6, 0.02**0.5))
