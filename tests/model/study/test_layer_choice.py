"""The result of one evaluation set: the learned mixtures of both penalties, and the fixed ones."""

from pathlib import Path

import pytest

from elmo_model.fitting.fitter import FitOptions
from elmo_model.inference.encoder import Encoder
from elmo_model.pretrained import open_model
from elmo_model.study.evaluation_sets import evaluation_sets
from elmo_model.study.layer_choice import layer_choice
from tests.model.study.sets import write_sentiment
from tests.support.servers import SMALL


def test_every_mixture_has_a_score_and_weights_a_seed(tmp_path: Path) -> None:
    write_sentiment(tmp_path)
    encoder = Encoder.of(open_model(SMALL))

    found = layer_choice(
        evaluation_sets(["sentiment"])[0],
        tmp_path,
        lambda sentences: encoder.encode_whole(sentences, bounded=True).sentences(),
        limit=20,
        options=FitOptions(seeds=2, rounds=1, batch=32),
    )

    assert (found["train_examples"], found["test_examples"]) == (20, 20)
    assert found["measure"] == "accuracy"
    names = {"learned, lambda 0.001", "learned, lambda 1", "average", "sum"}
    assert set(found["mixtures"]) == names | {f"layer {n}" for n in range(3)}
    for row in found["mixtures"].values():
        assert len(row["scores"]) == len(row["weights"]) == 2
    (strong, *_) = found["mixtures"]["learned, lambda 1"]["weights"]
    assert strong == pytest.approx([1 / 3] * 3, abs=0.05)
