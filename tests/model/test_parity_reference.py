"""The network against plain NumPy, over all that an options file can say."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from tests.support import reference
from tests.support.checkpoints import read_pair, write_pair

SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["naïve", "東京", "x" * 60, ""],
    [],
    ["<S>", "a", "</S>", "<UNK>"],
    ["one"],
]

SHAPES: dict[str, dict[str, Any]] = {
    "as published": {},
    "one layer": {"layers": 1},
    "four layers": {"layers": 4},
    "no highway": {"highways": 0},
    "three highways": {"highways": 3},
    "tanh": {"activation": "tanh"},
    "no skip connections": {"skip": False, "layers": 3},
    "no clips": {"cell_clip": None, "projection_clip": None, "gain": 2.0},
    "clips of zero are none": {"cell_clip": 0, "projection_clip": 0, "gain": 2.0},
    "tight clips": {"cell_clip": 0.3, "projection_clip": 0.2},
    "no token projection": {"filters": ((1, 2), (2, 2)), "projection": 4},
    "no output projection": {"cell": 4, "projection": 4, "projection_clip": 0.1},
    "no projection at all": {"cell": 4, "projection": 4, "filters": ((1, 2), (3, 2))},
    "projection wider than cell": {"cell": 3, "projection": 7},
    "short words": {"max_characters": 7},
    "long words": {"max_characters": 80},
    "261 characters": {"n_characters": 261},
    "characters unsaid": {"n_characters": None},
    "one filter": {"filters": ((5, 3),), "char_width": 1, "projection": 2},
    "odd sizes": {
        "cell": 13,
        "projection": 5,
        "filters": ((1, 1), (4, 6), (7, 3)),
        "char_width": 3,
    },
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_legal_shape_answers_as_numpy_does(tmp_path: Path, shape: dict[str, Any]) -> None:
    options, weights = read_pair(write_pair(tmp_path / "model", seed=7, **shape))
    elmo = load(tmp_path / "model").double()
    with torch.no_grad():
        representations, state = elmo(SENTENCES)
        again, _ = elmo(SENTENCES[::-1], state)
    for row, sentence in enumerate(SENTENCES):
        first, memory = reference.representations(sentence, options, weights)
        answer = representations.sentences()[row].numpy()
        np.testing.assert_allclose(answer, first, rtol=0, atol=1e-9)
        # the same place in the next batch starts from what this sentence left there
        follower = SENTENCES[::-1][row]
        second, _ = reference.representations(follower, options, weights, memory)
        np.testing.assert_allclose(again.sentences()[row].numpy(), second, rtol=0, atol=1e-9)


def test_the_clips_bite_in_these_shapes(tmp_path: Path) -> None:
    tight = write_pair(tmp_path / "model", seed=7, cell_clip=0.25, projection_clip=0.125)
    _, state = load(tight)(SENTENCES)
    assert state.c.abs().max() == 0.25
    assert state.h.abs().max() == 0.125
