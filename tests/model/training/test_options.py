"""The options of `elmo train` are checked, and a plan follows from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.training.command import CommandError, train
from elmo_model.training.corpus import Corpus
from tests.support import golden
from tests.support.checkpoints import write_pair
from tests.support.training_runs import options


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": "new"}, "--recipe is 'new', expected reference or modern"),
        ({"samples": 30}, "--samples is 30, expected fewer than the 30 words"),
        ({"shape": "huge"}, "--shape is 'huge', expected tiny"),
        ({"weights": "english"}, "--weights and --shape: expected only one of them"),
        ({"weights": "english", "shape": None, "cell": 8}, "--weights and --cell"),
        ({"weights": "nowhere", "shape": None}, "nowhere: does not exist"),
        ({"softmax_steps": 3}, "--softmax-steps is 3 without --weights"),
        ({"precision": "int4"}, "--precision is 'int4'"),
        ({"schedule": "linear"}, "--schedule is 'linear'"),
        ({"tokens": 40}, "--steps and --tokens"),
        ({"text": ("nowhere*.txt",)}, "nowhere.*: no such file"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        train(options(tmp_path, "run", **changed))


def test_weights_that_a_run_cannot_carry_on_are_refused(tmp_path: Path) -> None:
    lexicon = golden.GOLDEN / "elmoformanylangs" / "word_and_char"
    with pytest.raises(CommandError, match=r"word_and_char', which has a lexicon of its own"):
        train(options(tmp_path, "run", weights=str(lexicon), shape=None))
    aligned = write_pair(tmp_path / "fr")
    torch.save(np.eye(8), aligned / "align.pth")
    with pytest.raises(CommandError, match=r"fr', which is aligned to another language"):
        train(options(tmp_path, "run", weights=str(aligned), shape=None))
    assert not (tmp_path / "run").exists()  # found before the text is read


def test_a_wrong_choice_is_found_before_the_text_is_read(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run", precision="fp8")
    with pytest.raises(CommandError, match="--precision"):
        train(chosen)
    assert not chosen.run.exists()


def test_a_plan_takes_steps_from_tokens_and_sizes_from_options(tmp_path: Path) -> None:
    corpus = Corpus.of([["a", "b"]])
    chosen = options(tmp_path, "run", steps=None, tokens=110, shape="tiny", cell=6, projection=4)
    plan = chosen.plan(corpus, 30)
    assert plan.steps == 5  # 20 tokens a step
    assert (plan.config.lstm.cell, plan.config.lstm.projection) == (6, 4)
    assert options(tmp_path, "run", softmax="full").plan(corpus, 30).recipe.samples == 0
    assert not options(tmp_path, "run", state="carried").plan(corpus, 30).recipe.fresh
