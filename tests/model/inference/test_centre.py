"""The centre: the mean of each layer over the tokens of the text, whatever the batches."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.inference.centre import centre_of, first_tokens, sentences
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork

CARD = Path(__file__).parents[3] / "model/elmo_model/models/english.md"


class Lengths:
    """A network whose vectors are the length of a token and its square, in two layers."""

    def __init__(self) -> None:
        self.batch_tokens: list[int] = []

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        self.batch_tokens.append(sum(len(sentence) + 2 for sentence in sentences))
        columns = [torch.tensor([[len(token)] for token in each]) for each in sentences]
        return [torch.stack([column, column**2]).float() for column in columns]


@pytest.mark.parametrize("max_tokens", [40, 512, 100_000])
def test_it_is_the_mean_over_all_tokens(max_tokens: int) -> None:
    network = Lengths()
    lengths = np.array([len(token) for sentence in sentences() for token in sentence], float)

    centre = centre_of(network, max_tokens)

    assert centre.layers.dtype == np.float32
    np.testing.assert_allclose(
        centre.layers[:, 0], [lengths.mean(), (lengths**2).mean()], rtol=1e-6
    )
    assert centre.tokens == len(lengths)
    assert max(network.batch_tokens) <= max_tokens


def test_the_text_is_some_hundred_tokenised_sentences_and_the_card_names_it() -> None:
    text = sentences()
    card = CARD.read_text(encoding="utf-8")

    assert len(text) >= 200
    assert all(len(sentence) >= 5 and all(sentence) for sentence in text)
    assert len(set(text)) == len(text)
    assert f"{len(text)} sentences" in card and f"{sum(map(len, text)):,} tokens" in card


@pytest.fixture(scope="module")
def english() -> ElmoNetwork:
    return open_model("english")


def test_the_first_sentences_have_the_tokens_that_are_asked_for() -> None:
    text = [["a"] * 3, ["b"] * 4, ["c"] * 5]

    assert [len(first_tokens(text, count)) for count in (1, 3, 4, 8, 99)] == [1, 1, 2, 3, 3]
