"""Frozen vectors of chosen tokens."""

from pathlib import Path

import torch

from elmo_model.checkpoints import load
from elmo_model.evaluation.features import vectors_of


def test_vectors_equal_those_of_each_sentence_alone(model: Path) -> None:
    elmo = load(model)
    sentences = [["a", "long", "sentence", "here"], ["b"], ["c", "d"]]
    found = vectors_of(elmo, sentences, [[3, 0], [], [1]])
    expected = [
        elmo.embed([["a", "long", "sentence", "here"]])[0][:, [3, 0]],
        elmo.embed([["c", "d"]])[0][:, [1]],
    ]
    torch.testing.assert_close(found, torch.cat(expected, dim=1), rtol=0, atol=1e-5)
