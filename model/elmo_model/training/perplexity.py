"""Perplexity of text, which depends on its sentences alone, not on the batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.steps import OnStep, ignore
from elmo_model.text.alphabets.vocabulary import BEGIN, END
from elmo_model.text.by_length import by_length
from elmo_model.training.language_model import LanguageModel
from elmo_model.training.vocabulary import Vocabulary

_POSITIONS = 8192  # characters, or tokens, of a batch; bounds memory


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Mean negative log likelihood of each direction, in nats, over `predictions` each."""

    forward_loss: float
    backward_loss: float
    predictions: int

    @property
    def forward(self) -> float:
        """Perplexity of the forward direction."""
        return _exp(self.forward_loss)

    @property
    def backward(self) -> float:
        """Perplexity of the backward direction."""
        return _exp(self.backward_loss)

    @property
    def bits_per_word(self) -> float:
        """The mean of both losses in bits."""
        return (self.forward_loss + self.backward_loss) / 2 / math.log(2)

    @property
    def both(self) -> float:
        """The geometric mean of both."""
        return _exp((self.forward_loss + self.backward_loss) / 2)


def per_token(
    model: LanguageModel,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    on_step: OnStep = ignore,
) -> Perplexity:
    """Measure over all predictions, every sentence from zero state, as the server reads it.

    A sentence of n tokens has n + 1 predictions in each direction: its tokens and its end. The
    softmax is over all words, without dropout. There is at least one sentence.
    """
    training = model.training
    model.eval()
    totals, predictions = torch.zeros(2, dtype=torch.float64), 0
    in_all = sum(len(sentence) + 1 for sentence in sentences)
    try:
        with torch.no_grad():
            for batch in by_length(range(len(sentences)), sentences, _POSITIONS):
                chosen = [sentences[number] for number in batch]
                totals += _losses(model, vocabulary, chosen)
                predictions += sum(len(sentence) + 1 for sentence in chosen)
                on_step("Perplexity", predictions, in_all)
    finally:
        model.train(training)
    forward, backward = (totals / predictions).tolist()
    return Perplexity(forward, backward, predictions)


def unigram(
    counts: NDArray[np.int64], vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> float:
    """Return the perplexity of words predicted by their share of a text alone, in each direction.

    `counts` (V,) are those of the vocabulary in the text; one is added to each. A direction
    predicts the tokens of a sentence and one of its boundaries, of which each text has equally
    many, so both directions have this perplexity.
    """
    begin, end = vocabulary.word_ids([BEGIN, END])
    added = np.delete(counts + 1, begin)
    logarithms = np.log(counts + 1) - np.log(added.sum())
    words = [word for sentence in sentences for word in sentence]
    total = logarithms[vocabulary.word_ids(words)].sum() + len(sentences) * logarithms[end]
    return _exp(float(-total) / (len(words) + len(sentences)))


def _losses(
    model: LanguageModel, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> Tensor:
    """Map sentences to the summed losses of both directions (2,)."""
    begin, end = model.elmo.alphabet.begin, model.elmo.alphabet.end
    framed = [(begin, *sentence, end) for sentence in sentences]
    representations, _ = model.elmo(sentences)
    top = representations.layers[-1]
    width = top.shape[1] // 2
    device = top.device
    words = [word for sentence in framed for word in sentence]
    numbers = torch.from_numpy(vocabulary.word_ids(words)).to(device)
    last = torch.cumsum(torch.tensor([len(words) for words in framed]), 0) - 1
    inner = torch.ones(len(numbers), dtype=torch.bool)
    inner[last] = False  # the positions that have a next word in their sentence
    here = inner.nonzero().squeeze(1).to(device)
    # the forward direction predicts the next word from here, the backward this word from the next
    forward = model.softmax.full(top[here, :width], numbers[here + 1])
    backward = model.softmax.full(top[here + 1, width:], numbers[here])
    return torch.stack((forward.double().sum(), backward.double().sum())).cpu()


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
