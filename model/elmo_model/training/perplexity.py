"""Perplexity of text: that of bilm-tf, and one that is independent of the batch size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from elmo_model.errors import OptionError
from elmo_model.steps import OnStep, ignore
from elmo_model.text.batches import by_length
from elmo_model.training.batches import Batch, CharacterTable, Direction
from elmo_model.training.corpus import Corpus
from elmo_model.training.language_model import LanguageModel
from elmo_model.training.row_stream import Rows, RowStream
from elmo_model.training.vocabulary import Vocabulary

ROWS = 256
"""Rows of bilm-tf's figure where none are asked for: those of the published figures."""

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
    def both(self) -> float:
        """The geometric mean of both, as bilm-tf reports it."""
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
                on_step("Per token", predictions, in_all)
    finally:
        model.train(training)
    forward, backward = (totals / predictions).tolist()
    return Perplexity(forward, backward, predictions)


def bilm_tf(
    model: LanguageModel,
    vocabulary: Vocabulary,
    corpus: Corpus,
    rows: int,
    block: int = 32,
    on_step: OnStep = ignore,
) -> Perplexity:
    """Measure as bilm-tf's `test` does (bilm-tf `training.py`).

    Rows are full: a row takes the next sentence when its own ends. State is carried for ever, and
    the last words that do not fill all rows are left out, so the figure depends on `rows`. bilm-tf
    reads one step at a time; here `block` steps are read at once. Raises OptionError for more rows
    than sentences, of which each row begins with one.
    """
    if rows > corpus.sentences:
        raise OptionError(f"--rows is {rows}, expected at most the {corpus.sentences} sentences")
    cnn = model.elmo.config.char_cnn
    assert cnn is not None
    characters = CharacterTable(corpus, vocabulary, model.elmo.alphabet, cnn, _POSITIONS)
    training, device = model.training, model.softmax.weight.device
    model.eval()
    state, totals, steps = model.zero_state(rows), torch.zeros(2, dtype=torch.float64), 0
    try:
        with torch.no_grad():
            for batch in _blocks(corpus, characters, rows, block):
                losses, state = model(batch.to(device), state)
                totals += losses.double().cpu() * len(batch.directions[0].sizes)
                steps += len(batch.directions[0].sizes)
                on_step("As bilm-tf", steps * rows, corpus.pairs)
    finally:
        model.train(training)
    forward, backward = (totals / steps).tolist()
    return Perplexity(forward, backward, steps * rows)


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


def _blocks(corpus: Corpus, table: CharacterTable, rows: int, block: int) -> Iterator[Batch]:
    """Yield batches of up to `block` steps, each step filled as a batch of its own."""
    streams = [RowStream(corpus, rows, 1, backward=b, seed=None) for b in (False, True)]
    while steps := list(islice(_steps(streams, rows), block)):
        # steps of (rows, 1) next to each other: (rows, steps)
        both = [np.concatenate([step[d].inputs for step in steps], axis=1) for d in (0, 1)]
        targets = [np.concatenate([step[d].targets for step in steps], axis=1) for d in (0, 1)]
        characters, index = table.look_up(np.stack(both))
        forward, backward = (Direction.of(index[d], table.targets[targets[d]]) for d in (0, 1))
        yield Batch(characters, (forward, backward), rows)


def _steps(streams: Sequence[RowStream], rows: int) -> Iterator[tuple[Rows, Rows]]:
    while True:
        forward, backward = (stream.next_batch(0, rows) for stream in streams)
        if forward is None or backward is None:
            return
        yield forward, backward


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
