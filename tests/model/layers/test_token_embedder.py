"""The token embedder: each distinct word once, and never an old vector."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from tests.support.checkpoints import write_pair


@pytest.fixture
def elmo(tmp_path: Path) -> Elmo:
    return load(write_pair(tmp_path / "model", filters=((1, 4), (7, 8))))


def test_distinct_words_of_a_batch_are_counted_once(elmo: Elmo) -> None:
    elmo.embed([["a", "rose", "is", "a", "rose"], ["a", "rose"]])
    assert (elmo.token_cache.hits, elmo.token_cache.misses) == (0, 5)  # <S> a rose is </S>
    elmo.embed([["a", "tulip"]])
    assert (elmo.token_cache.hits, elmo.token_cache.misses) == (3, 6)


def test_cropped_padding_changes_no_vector(elmo: Elmo) -> None:
    words = ["", "a", "bb", "word", "x" * 43, "y" * 44, "z" * 48, "長い言葉", "w" * 200]
    embedder = elmo.token_embedder
    full = embedder.char_cnn(torch.from_numpy(elmo.alphabet.encode(words, 50)))
    cropped = torch.cat([embedder.embed([word]) for word in words])
    torch.testing.assert_close(cropped, full, rtol=0, atol=1e-6)


def test_one_position_less_would_lose_the_window_of_padding_alone(elmo: Elmo) -> None:
    words = [chr(code) for code in range(33, 126)]
    cnn, widest = elmo.token_embedder.char_cnn, elmo.config.char_cnn.widest
    exact = cnn(torch.from_numpy(elmo.alphabet.encode(words, 3 + widest)))
    short = cnn(torch.from_numpy(elmo.alphabet.encode(words, 2 + widest)))
    assert not torch.allclose(exact, short, atol=1e-4)


def test_many_new_words_pass_the_cnn_in_chunks_and_come_back_in_order(elmo: Elmo) -> None:
    words = [str(number) * (number % 9 + 1) for number in range(1500)]
    sizes: list[int] = []
    handle = elmo.token_embedder.char_cnn.register_forward_pre_hook(
        lambda _, arguments: sizes.append(arguments[0].numel())
    )
    together = elmo.token_embedder.embed(words)
    handle.remove()
    assert len(sizes) > 1 and max(sizes) <= 8192
    for row in (0, 1, 700, 1499):
        alone = elmo.token_embedder.embed([words[row]])[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-6)


def test_a_training_step_makes_the_cache_forget(elmo: Elmo) -> None:
    before = elmo.embed([["word"]])[0]
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    representations, _ = elmo([["word"]])
    torch.autograd.backward(representations.layers.square().sum())
    optimizer.step()
    after = elmo.embed([["word"]])[0]
    assert not torch.allclose(before[0], after[0], atol=1e-4)


def test_new_weights_and_another_type_make_the_cache_forget(elmo: Elmo) -> None:
    first = elmo.embed([["word"]])[0]
    elmo.load_state_dict({name: value * 0.5 for name, value in elmo.state_dict().items()})
    assert not torch.allclose(elmo.embed([["word"]])[0], first, atol=1e-4)
    assert elmo.double().embed([["word"]])[0].dtype == torch.float64


def test_gradients_flow_while_the_cache_is_warm(elmo: Elmo) -> None:
    elmo.embed([["word"]])
    representations, _ = elmo([["word"]])
    torch.autograd.backward(representations.layers.sum())
    assert elmo.token_embedder.char_cnn.characters.grad is not None
