"""The sentence test: its data and its score."""

from collections import Counter
from functools import partial

import pytest
import torch

from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.tasks.evaluation.score import table
from elmo_model.tasks.evaluation.senses import SENTENCES, read_uses, senses, separation
from elmo_model.tasks.features import encode_by, features_of
from tests.support.command_line import elmo


def test_the_set_is_30_words_of_two_senses_with_two_sentences_each() -> None:
    examples, words = read_uses(SENTENCES)
    assert len(Counter(words)) == 30 and set(Counter(words).values()) == {4}
    assert set(Counter(zip(words, examples.labels, strict=True)).values()) == {2}
    tokens = [examples.sentences[place.sentence][place.token or 0] for (place,) in examples.places]
    assert tokens == words
    assert len(set(examples.sentences)) == len(words)


def test_separation_is_the_cosine_within_senses_minus_across() -> None:
    senses = ["one", "one", "two", "two"]
    apart = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert separation(apart, senses) == pytest.approx(1.0)
    mixed = apart[[0, 2, 1, 3]]
    assert separation(mixed, senses) == pytest.approx(-0.5)


def test_the_token_layer_sees_no_context_and_misses_all() -> None:
    score = senses(partial(features_of, encode_by(Encoder.of(open_model("random-small")))))
    assert score.layers[0] == 0.0 and score.items == 30
    assert len(score.misses[0]) == 30
    for accuracy, missed in zip(score.layers, score.misses, strict=True):
        assert accuracy == pytest.approx(100 * (30 - len(missed)) / 30)
    assert f"missed by layer 2: {', '.join(score.misses[2])}" in table([score])


def test_the_command_scores_without_a_file() -> None:
    result = elmo("evaluate", "random-small", "--senses", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "senses of ordinary words" in result.stdout
