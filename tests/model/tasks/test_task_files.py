"""The files of a fitted task, and the object `fit` of its task file."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from elmo_model.network.elmo import Origin
from elmo_model.tasks.comparison import HEAD, REPORT, Comparison, FittedTask, Row, json_bytes
from elmo_model.tasks.fitter import FitOptions, Fitted, MixtureHead
from elmo_model.tasks.scores import Scores

HEAD_OF_BEST = MixtureHead(3, 4, 2)
torch.nn.init.normal_(HEAD_OF_BEST.linear.weight)
TASK = FittedTask(
    name="ner",
    kind="token",
    options=FitOptions(seeds=2),
    found=Comparison(
        rows=(Row("learned", ((0.2, 0.5, 0.3),) * 2, (Scores(0.5, 0, 0), Scores(0.7, 0, 0))),),
        best=Fitted(("Zürich", "O"), HEAD_OF_BEST, Scores(1, 1, 1), 3),
        scored_on="validation",
        train_examples=10,
        scored_examples=2,
        data="ab" * 32,
    ),
    origin=Origin(name="small", format="allennlp", revision="0123abcd"),
)


def test_the_head_is_read_back_with_its_labels(tmp_path: Path) -> None:
    TASK.write(tmp_path / "new" / "folder")

    with safe_open(tmp_path / "new" / "folder" / HEAD, "pt") as file:
        assert torch.equal(file.get_tensor("weight"), HEAD_OF_BEST.linear.weight)
        assert torch.equal(file.get_tensor("bias"), HEAD_OF_BEST.linear.bias)
        assert json.loads(file.metadata()["labels"]) == ["Zürich", "O"]
        assert file.metadata()["kind"] == "token"


def test_the_report_is_written_and_replaced(tmp_path: Path) -> None:
    (tmp_path / REPORT).write_text("old")

    TASK.write(tmp_path)

    report = json.loads((tmp_path / REPORT).read_text(encoding="utf-8"))
    assert report["model"]["revision"] == "0123abcd"
    assert report["options"]["seeds"] == 2
    assert report["mixtures"]["learned"]["mean"] == pytest.approx(0.6)
    assert {path.name for path in tmp_path.iterdir()} == {HEAD, REPORT}


def test_the_object_fit_says_what_the_weights_were_learned_from() -> None:
    fit = TASK.fit

    assert (fit["model"], fit["revision"], fit["data"]) == ("small", "0123abcd", "ab" * 32)
    assert (fit["kind"], fit["seeds"], fit["scored_on"]) == ("token", 2, "validation")
    assert fit["score"] == pytest.approx(0.6)
    assert fit["spread"] == pytest.approx(0.02**0.5)


def test_json_is_utf8_and_ends_with_a_line_feed() -> None:
    assert json_bytes({"a": "ü"}) == '{\n  "a": "ü"\n}\n'.encode()
