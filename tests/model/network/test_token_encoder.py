"""The token encoder: each distinct word once, padding takes part."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.token_encoder import CharCNN, distinct
from tests.support.checkpoints import write_pair


@pytest.fixture
def elmo(tmp_path: Path) -> ElmoNetwork:
    return load(write_pair(tmp_path / "model", filters=((1, 4), (7, 8))))


def cnn_of(elmo: ElmoNetwork) -> CharCNN:
    cnn = elmo.token_embedder.char_cnn
    assert cnn is not None
    return cnn


def test_a_word_is_computed_once_a_batch(elmo: ElmoNetwork) -> None:
    rows: list[int] = []
    handle = cnn_of(elmo).register_forward_pre_hook(
        lambda _, arguments: rows.append(len(arguments[0]))
    )
    vectors = elmo.token_embedder(["a", "rose", "is", "a", "rose"])
    handle.remove()
    assert rows == [3]
    assert torch.equal(vectors[0], vectors[3]) and torch.equal(vectors[1], vectors[4])
    assert not torch.equal(vectors[0], vectors[1])


def test_distinct_words_are_in_order_of_first_use() -> None:
    assert distinct(["b", "a", "b", ""]) == (("b", "a", ""), [0, 1, 0, 2])


def test_surplus_rows_change_no_vector(elmo: ElmoNetwork) -> None:
    words = ["a", "bb", "word", "x" * 20, "longer"]
    rounded = elmo.token_embedder.embed(words, lambda rows: rows + 3)
    torch.testing.assert_close(rounded, elmo.token_embedder.embed(words), rtol=0, atol=1e-6)


def test_fewer_padding_characters_change_no_vector(elmo: ElmoNetwork) -> None:
    words = ["", "a", "bb", "word", "x" * 43, "y" * 44, "z" * 48, "長い言葉", "w" * 200]
    embedder = elmo.token_embedder
    full = cnn_of(elmo)(torch.from_numpy(elmo.alphabet.encode(words, 50)))
    cropped = torch.cat([embedder.embed([word]) for word in words])
    torch.testing.assert_close(cropped, full, rtol=0, atol=1e-6)


def test_one_padding_character_less_would_change_vectors(elmo: ElmoNetwork) -> None:
    words = [chr(code) for code in range(33, 126)]
    cnn, widest = cnn_of(elmo), 7
    exact = cnn(torch.from_numpy(elmo.alphabet.encode(words, 3 + widest)))
    short = cnn(torch.from_numpy(elmo.alphabet.encode(words, 2 + widest)))
    assert not torch.allclose(exact, short, atol=1e-4)


def test_many_new_words_pass_the_cnn_in_chunks_and_come_back_in_order(elmo: ElmoNetwork) -> None:
    words = [str(number) * (number % 9 + 1) for number in range(1500)]
    sizes: list[int] = []
    handle = cnn_of(elmo).register_forward_pre_hook(
        lambda _, arguments: sizes.append(arguments[0].numel())
    )
    together = elmo.token_embedder.embed(words)
    handle.remove()
    assert len(sizes) > 1 and max(sizes) <= 8192
    for row in (0, 1, 700, 1499):
        alone = elmo.token_embedder.embed([words[row]])[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-6)
