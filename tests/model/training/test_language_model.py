"""Training losses of sentences from zero state are those of the served network."""

from pathlib import Path

import pytest
import torch

from elmo_model.training.batches import Batches, CharacterTable
from elmo_model.training.options import Options
from elmo_model.training.perplexity import per_token
from tests.support import training as golden
from tests.support.training import corpus_of

ROWS, STEPS = 3, 7


@pytest.mark.parametrize("chunk", [200, None])
def test_losses_from_zero_state_are_those_of_the_served_network(
    tmp_path: Path, chunk: int | None
) -> None:
    model, vocabulary = golden.first_model(tmp_path), golden.vocabulary()
    sentences = golden.sentences("train.txt")[:20]
    # a text whose pairs fill the rows: every sentence ends within the batches that are read
    while (sum(map(len, sentences)) + len(sentences)) % (ROWS * STEPS):
        sentences.append(["the"] if len(sentences) % 2 else ["the", "of"])
    corpus = corpus_of(sentences)
    cnn = model.elmo.config.char_cnn
    assert cnn is not None
    batches = Batches(
        corpus,
        CharacterTable(corpus, vocabulary, model.elmo.alphabet, cnn, chunk),
        Options(Path(), (), rows=1, unroll=STEPS, samples=0),
        len(vocabulary),
        seed=None,
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


def test_each_direction_of_each_step_draws_noise_of_its_own(tmp_path: Path) -> None:
    model, drawn = golden.first_model(tmp_path).train(), []
    model.noise = 1.0
    for seed in (1, 2):
        for number in (0, 1):
            torch.manual_seed(seed)
            (noise,) = model._noise(number, 1, torch.zeros(2, 3, 4))
            assert noise is not None
            drawn.append(tuple(noise.flatten().tolist()))
    assert len(set(drawn)) == 4
