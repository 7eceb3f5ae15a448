"""A tagger learns labels that its input holds, from a seed alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.study.tagger import PLACES
from benchmarks.study.tagger_training import Tagged, TaggerOptions, train_tagger

OPTIONS = TaggerOptions(hidden=8, dropout=0.0, rounds=5, rows=8, learning_rate=0.05)


def made(count: int, seed: int, *, in_layers: bool) -> Tagged:
    """Return sentences whose label is the sign of a number: of the layers, or of the words."""
    source = np.random.default_rng(seed)
    static, layers, labels = [], [], []
    for _ in range(count):
        length = int(source.integers(1, 6))
        signal = source.choice([-1.0, 1.0], length)
        words = source.normal(size=(length, 2))
        contextual = source.normal(size=(3, length, 4))
        if in_layers:
            contextual[1, :, 0] = 3 * signal
        else:
            words[:, 0] = 3 * signal
        static.append(torch.tensor(words, dtype=torch.float32))
        layers.append(torch.tensor(contextual, dtype=torch.float32))
        labels.append(["up" if each > 0 else "down" for each in signal])
    return Tagged(static, layers, labels)


def parts(*, in_layers: bool) -> tuple[Tagged, Tagged, Tagged]:
    """Return a training, a development and a test part."""
    train, development, test = (
        made(count, seed, in_layers=in_layers) for seed, count in enumerate((48, 16, 32))
    )
    return train, development, test


@pytest.mark.long
def test_elmo_at_the_input_and_at_the_output_is_learned_from() -> None:
    train, development, test = parts(in_layers=True)

    none, below, above = (
        train_tagger(place, train, development, test, OPTIONS, seed=0) for place in PLACES[:3]
    )

    assert none.test.main < 0.7
    assert min(below.test.main, above.test.main) > 0.85
    assert below.weights["input"][1] == max(below.weights["input"])
    assert none.weights == {} and set(above.gammas) == {"output"}


@pytest.mark.long
def test_word_vectors_alone_are_learned_from() -> None:
    found = train_tagger("none", *parts(in_layers=False), OPTIONS, seed=0)

    assert found.test.main > 0.9


@pytest.mark.long
def test_a_seed_decides_the_result_alone() -> None:
    options = replace(OPTIONS, rounds=1)

    one, again, other = (
        train_tagger("both", *parts(in_layers=True), options, seed) for seed in (0, 0, 1)
    )

    assert one == again
    assert one.weights != other.weights and one.gammas != other.gammas


def test_batches_are_sentences_of_similar_length() -> None:
    tagged = made(10, 0, in_layers=True)

    batches = tagged.batches(["down", "up"], rows=4)

    lengths = [int(each) for batch in batches for each in batch.lengths]
    assert lengths == sorted(lengths) and len(batches) == 3
    first = tagged.order()[0]
    length = len(tagged.labels[first])
    torch.testing.assert_close(batches[0].layers[:, 0, :length], tagged.layers[first])
