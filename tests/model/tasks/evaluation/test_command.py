"""`elmo evaluate`: options to scores, in process and from the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from elmo_model.checkpoints import CheckpointError
from elmo_model.errors import OptionError
from elmo_model.steps import ignore
from elmo_model.tasks.evaluation.command import EvaluateOptions, evaluate
from elmo_model.tasks.evaluation.score import Score, percent, table
from elmo_model.text.files import TextError
from elmo_serve.cli import main
from tests.support import training_golden as golden
from tests.support.checkpoints import write_pair
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
    with pytest.raises((CheckpointError, OptionError, TextError), match=message):
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


def elmo(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_train_perplexity_evaluate(tmp_path: Path) -> None:
    run, text = tmp_path / "run", golden.FOLDER / "train.txt"
    shape = write_pair(tmp_path / "shape")
    options = ["--shape", shape, "--rows", 4, "--unroll", 5, "--samples", 8, "--device", "cpu"]
    trained = elmo("train", run, "--text", text, *options, "--vocabulary-size", 20, "--steps", 2)
    assert trained.exit_code == 0, trained.output

    measured = elmo("perplexity", run, golden.FOLDER / "heldout.txt", "--sentences", 5, "--json")
    assert measured.exit_code == 0, measured.output
    printed = json.loads(measured.stdout)
    assert printed["bilm_tf"] is None and 1 < printed["per_token"]["both"] < 100

    pairs = tmp_path / "wic.tsv"
    pairs.write_text(
        "word\tlabel\tindex1\tindex2\tsentence1\tsentence2\n"
        + "a\tT\t0\t0\ta\ta\na\tF\t0\t0\ta\tb\n" * 3
    )
    scored = elmo("evaluate", run / "model.safetensors", "--wic", pairs, "--device", "cpu")
    assert scored.exit_code == 0, scored.output
    assert "word in context" in scored.stdout


def test_what_a_user_can_mend_is_one_line(tmp_path: Path) -> None:
    for code, *arguments in (
        (1, "train", tmp_path / "run", "--text", "nowhere*"),
        (2, "train", tmp_path / "run", "--text", golden.FOLDER / "train.txt", "--samples", 0),
        (1, "perplexity", tmp_path, golden.FOLDER / "heldout.txt"),
    ):
        refused = elmo(*arguments)
        assert refused.exit_code == code
        assert refused.stderr.startswith("elmo: ") or "\nelmo: " in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_best_layer_is_marked() -> None:
    lines = table([Score("one", (1.0, 3.0, 2.0), 1000, 0.5, "guess")]).splitlines()
    assert "3.0*" in lines[1] and lines[1].count("*") == 1
    assert "1,000" in lines[1] and lines[1].endswith("0.5 (guess)")


def test_a_share_is_in_percent() -> None:
    assert percent(1, 8) == 12.5
