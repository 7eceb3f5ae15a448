"""The programs behind `elmo train` and `elmo perplexity`."""

import json
from pathlib import Path

import pytest

from elmo_model.training.command import CommandError, perplexity, train
from tests.support.training_runs import HELDOUT, lines, options


def test_perplexity_of_a_run_is_the_figure_of_its_log(tmp_path: Path) -> None:
    chosen = options(tmp_path, "run")
    train(chosen)
    found = json.loads(perplexity(chosen.run, (str(HELDOUT),), 2, None, True))
    assert found["per_token"]["both"] == pytest.approx(lines(chosen.run)[-1]["heldout_perplexity"])
    assert found["per_token"]["predictions"] == 190 + 25
    assert found["bilm_tf"]["predictions"] == (190 + 25) // 2 * 2
    assert "bilm-tf, 2 rows" in perplexity(chosen.run, (str(HELDOUT),), 2, None, False)
    with pytest.raises(CommandError, match="fewer rows"):
        perplexity(chosen.run, (str(HELDOUT),), 500, None, False)
