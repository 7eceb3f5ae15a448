"""`elmo train`, `elmo perplexity` and `elmo evaluate` on tiny texts."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from elmo_serve.cli import main
from tests.support import training_golden as golden
from tests.support.checkpoints import write_pair


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
    for arguments in (
        ("train", tmp_path / "run", "--text", "nowhere*"),
        ("train", tmp_path / "run", "--text", golden.FOLDER / "train.txt", "--samples", 0),
        ("perplexity", tmp_path, golden.FOLDER / "heldout.txt"),
    ):
        refused = elmo(*arguments)
        assert refused.exit_code == 1
        assert refused.stderr.startswith("elmo: ") or "\nelmo: " in refused.stderr
        assert "Traceback" not in refused.stderr
