"""`elmo evaluate`: options to scores."""

import json
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError
from elmo_model.steps import ignore
from elmo_model.tasks.evaluation.command import EvaluateOptions, evaluate
from elmo_model.tasks.evaluation.score import SelectionError
from elmo_model.text.files import TextError
from tests.support.evaluation_sets import pairs
from tests.support.steps import Steps


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "no test set is given"),
        ({"pos_train": Path("a")}, "--pos-train and --pos-test are given together"),
        ({"wic": Path("nowhere.tsv")}, "nowhere.tsv: cannot be read"),
        ({"wic": Path("a"), "model": "nothing"}, "nothing: does not exist"),
    ],
)
def test_wrong_options_and_files_are_named(
    model: Path, changed: dict[str, object], message: str
) -> None:
    given = {"model": str(model), "device": "cpu", **changed}
    with pytest.raises((CheckpointError, SelectionError, TextError), match=message):
        evaluate(EvaluateOptions(**given), ignore)  # type: ignore[arg-type]


def test_table_and_json_have_the_same_scores(tmp_path: Path, model: Path) -> None:
    path = pairs(tmp_path / "wic.tsv", *[("T", 0, 0, "a", "a"), ("F", 0, 0, "a", "b")] * 4)
    options = EvaluateOptions(str(model), wic=path, device="cpu")
    steps = Steps()
    text = evaluate(options, steps)
    assert "token layer" in text and "100.0*" in text
    assert steps.told == [(f"Reading {model}", 0, 0), ("Words in context", 16, 16)]
    printed = json.loads(evaluate(EvaluateOptions(str(model), wic=path, as_json=True), ignore))
    assert printed["scores"][0]["layers"] == [100.0, 100.0, 100.0]
    assert printed["model"]["format"] == "allennlp"
