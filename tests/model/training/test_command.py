"""The programs behind `elmo train` and `elmo perplexity`."""

import json

import pytest

from elmo_model.errors import ElmoError
from elmo_model.training.command import TrainOptions, perplexity
from tests.support.training_runs import HELDOUT, lines


def test_perplexity_of_a_run_is_the_figure_of_its_log(whole: TrainOptions) -> None:
    found = json.loads(perplexity(whole.run, (str(HELDOUT),), 2, None, True))
    assert found["per_token"]["both"] == pytest.approx(lines(whole.run)[-1]["heldout_perplexity"])
    assert found["per_token"]["predictions"] == 190 + 25
    assert found["bilm_tf"]["predictions"] == (190 + 25) // 2 * 2
    assert "bilm-tf, 2 rows" in perplexity(whole.run, (str(HELDOUT),), 2, None, False)
    # the softmax lies beside the model that is served
    served = perplexity(whole.run / "model.safetensors", (str(HELDOUT),), 2, None, True)
    assert json.loads(served) == found
    with pytest.raises(ElmoError, match="fewer rows"):
        perplexity(whole.run, (str(HELDOUT),), 500, None, False)
