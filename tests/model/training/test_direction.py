"""Sentences that start afresh are read as they are served; rows that go on keep their state."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.training.batches import Batches, CharacterTable
from elmo_model.training.corpus import Corpus
from elmo_model.training.direction import Layout
from elmo_model.training.fused_loop import use_fused_loop
from elmo_model.training.perplexity import per_token
from tests.support import training_golden as golden

ROWS, STEPS = 3, 7


def test_a_layout_without_breaks_is_the_batch_time_by_time() -> None:
    layout = Layout.of(np.ones((2, 3), dtype=bool), fresh=False)
    assert layout.order.tolist() == [0, 3, 1, 4, 2, 5]
    assert layout.sizes == (2, 2, 2)
    assert layout.before.tolist() == layout.after.tolist() == [0, 1]


def test_pieces_are_packed_from_the_longest_on() -> None:
    begins = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
    layout = Layout.of(begins, fresh=True)
    # pieces by length: row 1 whole, row 2 from 1, row 0 to 1, row 0 from 2, row 2 first place
    assert layout.sizes == (5, 4, 2, 1)
    assert layout.order.tolist() == [4, 9, 0, 2, 8, 5, 10, 1, 3, 6, 11, 7]
    assert layout.before.tolist() == [3, 3, 0, 3, 2]  # 3: zero, where a sentence begins
    assert layout.after.tolist() == [3, 0, 1]


@pytest.mark.parametrize("fused", [False, True])
def test_losses_of_fresh_sentences_are_those_of_serving(tmp_path: Path, fused: bool) -> None:
    model, vocabulary = golden.first_model(tmp_path), golden.vocabulary()
    if fused:
        use_fused_loop(model.elmo.bilm)
    sentences = golden.sentences("train.txt")[:20]
    # a text whose pairs fill the rows: every sentence ends within the batches that are read
    while (sum(map(len, sentences)) + len(sentences)) % (ROWS * STEPS):
        sentences.append(["the"] if len(sentences) % 2 else ["the", "of"])
    corpus = Corpus.of(sentences)
    cnn = model.elmo.config.char_cnn
    assert cnn is not None
    batches = Batches(
        corpus,
        CharacterTable(corpus, vocabulary, model.elmo.alphabet, cnn, 200),
        rows=1,
        steps=STEPS,
        samples=0,
        words=len(vocabulary),
        seed=None,
        fresh=True,
    )
    state, total, count = model.zero_state(1), torch.zeros(2), 0
    while (batch := batches.next_batch(count)) is not None:
        losses, state = model(batch, state)
        total += losses.detach()
        count += 1

    served = per_token(model, vocabulary, sentences)
    assert count * STEPS == served.predictions
    forward, backward = (total / count).tolist()
    assert forward == pytest.approx(served.forward_loss, abs=1e-5)
    assert backward == pytest.approx(served.backward_loss, abs=1e-5)
