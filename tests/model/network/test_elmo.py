"""The trained network: shapes, independence of sentences, state, modes."""

import random
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.network.elmo import ElmoNetwork
from tests.support import golden
from tests.support.checkpoints import write_pair

SENTENCES = [[word for word in sentence if word] for sentence in golden.sentences()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("elmo") / "model", cell=24, projection=12, layers=3)


@pytest.fixture
def elmo(folder: Path) -> ElmoNetwork:
    return load(folder)


def test_vectors_depend_neither_on_the_batch_nor_on_its_order() -> None:
    elmo = load(golden.SMALL)
    alone = [elmo.embed([sentence])[0] for sentence in SENTENCES]
    order = list(range(len(SENTENCES))) * 2
    for seed in range(2):
        random.Random(seed).shuffle(order)
        together = elmo.embed([SENTENCES[number] for number in order])
        for number, layers in zip(order, together, strict=True):
            torch.testing.assert_close(layers, alone[number], rtol=0, atol=1e-5)


def test_no_sentences_give_no_vectors(elmo: ElmoNetwork) -> None:
    assert elmo.embed([]) == []
    representations, state = elmo([])
    assert representations.layers.shape == (4, 0, 24) and representations.sentences() == []
    assert state.rows == 0


def test_layer_zero_is_the_token_vector_twice_without_context(elmo: ElmoNetwork) -> None:
    first, second = elmo.embed([["bank", "of", "the", "river"], ["bank"]])
    assert torch.equal(first[0, :, :12], first[0, :, 12:])
    assert torch.equal(first[0, 0], second[0, 0])
    assert not torch.allclose(first[1, 0], second[1, 0], atol=1e-3)


def test_embedding_is_the_forward_pass_without_its_boundaries(elmo: ElmoNetwork) -> None:
    sentences = [["a", "b", "a"], [], ["b"], ["a"] * 9]
    with torch.no_grad():
        whole, _ = elmo(sentences)
    assert whole.bounded and whole.lengths == (5, 2, 3, 11)
    for found, layers in zip(elmo.embed(sentences), whole.sentences(), strict=True):
        assert torch.equal(found, layers[:, 1:-1])


def test_embedding_applies_no_dropout_and_restores_training_mode(folder: Path) -> None:
    loaded = load(folder)
    trained = ElmoNetwork(loaded.config, loaded.alphabet, loaded.origin, dropout=0.5)
    trained.load_state_dict(loaded.state_dict())
    trained.train()
    answer = trained.embed([["a", "b", "c"]])[0]
    assert trained.training
    assert torch.equal(answer, loaded.embed([["a", "b", "c"]])[0])
    dropped, _ = trained([["a", "b", "c"]])
    assert not torch.allclose(dropped.layers[1:, 1:-1], answer[1:], atol=1e-3)
