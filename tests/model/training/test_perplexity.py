"""The perplexity per token depends on the sentences, not on the batches."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.training.perplexity import Perplexity, per_token, unigram
from elmo_model.training.vocabulary import Vocabulary
from tests.support import training as golden


def test_it_is_independent_of_order_and_batches(tmp_path: Path) -> None:
    model, vocabulary = golden.first_model(tmp_path), golden.vocabulary()
    sentences = golden.sentences("heldout.txt")
    whole = per_token(model, vocabulary, sentences)
    again = per_token(model, vocabulary, sentences[::-1])
    assert again.both == pytest.approx(whole.both, rel=1e-6)
    singles = [per_token(model, vocabulary, [sentence]) for sentence in sentences]
    forward = sum(each.forward_loss * each.predictions for each in singles) / whole.predictions
    backward = sum(each.backward_loss * each.predictions for each in singles) / whole.predictions
    assert whole.predictions == sum(len(sentence) + 1 for sentence in sentences)
    assert whole.forward_loss == pytest.approx(forward, abs=1e-6)
    assert whole.backward_loss == pytest.approx(backward, abs=1e-6)
    assert whole.both == pytest.approx((whole.forward * whole.backward) ** 0.5)


def test_a_large_loss_has_an_infinite_perplexity() -> None:
    assert Perplexity(1e6, 1e6, 1).both == float("inf")


def test_the_unigram_predicts_each_word_by_its_share() -> None:
    vocabulary = Vocabulary(("<S>", "</S>", "<UNK>", "a", "b"))
    counts = np.array([3, 3, 1, 5, 2])
    # one more of each, without <S>, which no direction predicts beside </S>: 4, 2, 6 and 3 of 15
    expected = (4 / 15 * 6 / 15 * 3 / 15 * 4 / 15 * 2 / 15) ** (-1 / 5)

    assert unigram(counts, vocabulary, [["a", "b"], ["unknown"]]) == pytest.approx(expected)
