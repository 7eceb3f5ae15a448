"""What an Elmo promises whoever calls it."""

import random
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load, save
from elmo_model.elmo import Elmo
from elmo_model.inference.linear import Product
from elmo_model.inference.linear.packed import onednn_quantises
from tests.support import golden
from tests.support.checkpoints import write_pair

SENTENCES = [[word for word in sentence if word] for sentence in golden.sentences()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pair(tmp_path_factory.mktemp("elmo") / "model", cell=24, projection=12, layers=3)


@pytest.fixture
def elmo(folder: Path) -> Elmo:
    return load(folder)


def test_a_sentence_answers_alone_as_in_company_and_in_any_order() -> None:
    elmo = load(golden.SMALL)
    alone = [elmo.embed([sentence])[0] for sentence in SENTENCES]
    order = list(range(len(SENTENCES))) * 2
    for seed in range(2):
        random.Random(seed).shuffle(order)
        together = elmo.embed([SENTENCES[number] for number in order])
        for number, layers in zip(order, together, strict=True):
            torch.testing.assert_close(layers, alone[number], rtol=0, atol=1e-5)


def test_earlier_calls_change_nothing(elmo: Elmo) -> None:
    first = elmo.embed([["play", "it", "again"]])[0]
    elmo.embed(SENTENCES)
    assert torch.equal(elmo.embed([["play", "it", "again"]])[0], first)


def test_each_sentence_has_the_shape_it_asked_for(elmo: Elmo) -> None:
    answers = elmo.embed([["a", "b"], [], [""]])
    assert [tuple(answer.shape) for answer in answers] == [(4, 2, 24), (4, 0, 24), (4, 1, 24)]
    assert (elmo.layers, elmo.dimension) == (4, 24)


def test_no_sentences_are_no_answers(elmo: Elmo) -> None:
    assert elmo.embed([]) == []
    representations, state = elmo([])
    assert representations.layers.shape == (4, 0, 24) and representations.sentences() == []
    assert state.rows == 0


def test_an_empty_token_is_a_token(elmo: Elmo) -> None:
    with_it, without = elmo.embed([["a", "", "b"], ["a", "b"]])
    assert with_it.shape[1] == 3 and without.shape[1] == 2
    assert not torch.equal(with_it[0, 1], with_it[0, 0])


def test_layer_zero_is_the_token_vector_twice_and_knows_no_context(elmo: Elmo) -> None:
    first, second = elmo.embed([["bank", "of", "the", "river"], ["bank"]])
    assert torch.equal(first[0, :, :12], first[0, :, 12:])
    assert torch.equal(first[0, 0], second[0, 0])
    assert not torch.allclose(first[1, 0], second[1, 0], atol=1e-3)


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16"])
def test_reading_gives_the_numbers_of_the_whole_without_its_boundaries(
    elmo: Elmo, precision: str | None
) -> None:
    if precision is not None:
        elmo.prepare(precision)
    sentences = [["a", "b", "a"], [], ["b"], [], ["a"] * 9, ["c", "a", "b", "b", "a"]]
    with torch.inference_mode():
        whole, _ = elmo(sentences)
        found = elmo.read(sentences)
        again = elmo.read(sentences)
    assert not found.bounded and whole.bounded
    assert found.layers.shape[1] == sum(map(len, sentences))
    tolerance = 2e-2 if precision == "bfloat16" else 5e-6
    for one, other in zip(found.sentences(), whole.sentences(), strict=True):
        torch.testing.assert_close(one, other[:, whole.inside], rtol=0, atol=tolerance)
    assert torch.equal(found.layers, again.layers)


def test_what_is_said_of_words_that_repeat_is_said_of_each(elmo: Elmo) -> None:
    elmo.prepare()
    sentences = [[f"w{(row * row + place) % 7}" for place in range(90)] for row in range(40)]
    together = elmo.embed(sentences)  # many blocks of places that share seven words
    for row in (0, 17, 39):
        alone = elmo.embed([sentences[row]])[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=5e-6)


def test_the_state_that_sentences_begin_with_follows_the_weights(elmo: Elmo) -> None:
    before = elmo.embed([["a", "b"]])[0]
    with torch.no_grad():
        for parameter in elmo.parameters():
            parameter.mul_(1.5)
        whole, _ = elmo([["a", "b"]])
    after = elmo.embed([["a", "b"]])[0]
    torch.testing.assert_close(after, whole.layers[:, 1:-1], rtol=0, atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-3)


def test_state_is_a_result_and_never_kept(elmo: Elmo) -> None:
    before = {name: value.clone() for name, value in elmo.state_dict().items()}
    with torch.no_grad():
        once, state = elmo([["a", "b"]])
        twice, _ = elmo([["a", "b"]])
        carried, _ = elmo([["a", "b"]], state)
    assert torch.equal(once.layers, twice.layers)
    assert not torch.allclose(once.layers[1:], carried.layers[1:], atol=1e-4)
    assert before.keys() == elmo.state_dict().keys()


def test_rows_beyond_a_batch_keep_their_state(elmo: Elmo) -> None:
    with torch.no_grad():
        _, three = elmo([["a"], ["b", "c"], ["d"]])
        _, one = elmo([["e"]], three)
    assert one.rows == 3
    assert torch.equal(one.h[:, 1:], three.h[:, 1:]) and torch.equal(one.c[:, 1:], three.c[:, 1:])
    assert not torch.equal(one.h[:, 0], three.h[:, 0])


def test_embedding_leaves_training_mode_as_it_was_and_drops_nothing(folder: Path) -> None:
    loaded = load(folder)
    trained = Elmo(loaded.config, loaded.alphabet, loaded.origin, dropout=0.5)
    trained.load_state_dict(loaded.state_dict())
    trained.train()
    answer = trained.embed([["a", "b", "c"]])[0]
    assert trained.training
    assert torch.equal(answer, loaded.embed([["a", "b", "c"]])[0])
    dropped, _ = trained([["a", "b", "c"]])
    assert not torch.allclose(dropped.layers[1:, 1:-1], answer[1:], atol=1e-3)


def test_an_answer_in_inference_mode_has_no_gradient(elmo: Elmo) -> None:
    assert elmo.embed([["a"]])[0].is_inference()


@pytest.mark.parametrize(
    "precision",
    [
        "float32",
        "bfloat16",
        "float16",
        pytest.param("int8", marks=pytest.mark.skipif(not onednn_quantises(), reason="no VNNI")),
    ],
)
def test_a_prepared_network_answers_as_before(elmo: Elmo, precision: str) -> None:
    expected = elmo.embed(SENTENCES)
    answers = elmo.prepare(precision).embed(SENTENCES)
    least = {"float32": 0.999999, "bfloat16": 0.99, "float16": 0.9999, "int8": 0.99}[precision]
    ours, truth = torch.cat(answers, dim=1), torch.cat(expected, dim=1)
    assert ours.dtype == torch.float32
    assert (torch.cosine_similarity(ours, truth, dim=2).mean(dim=1) > least).all()
    if precision != "float32":
        assert not torch.equal(answers[0], expected[0])
    assert not any(isinstance(module, Product) for module in elmo.modules())


def test_a_prepared_network_is_prepared_once_more_without_harm(elmo: Elmo) -> None:
    expected = elmo.embed([["a", "b"]])[0]
    assert torch.equal(elmo.prepare().embed([["a", "b"]])[0], elmo.prepare().embed([["a", "b"]])[0])
    torch.testing.assert_close(elmo.embed([["a", "b"]])[0], expected, rtol=0, atol=1e-5)


def test_a_prepared_network_is_not_saved(elmo: Elmo, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"bilm.* expected a network as it was loaded"):
        save(elmo.prepare(), tmp_path / "it.safetensors")


def test_an_unknown_precision_names_the_good_ones(elmo: Elmo) -> None:
    with pytest.raises(ValueError, match="'int4', expected one of float32, bfloat16, float16"):
        elmo.prepare("int4")


def test_parameters_are_counted_as_published(folder: Path) -> None:
    elmo = load(folder)
    learnt = sum(parameter.numel() for parameter in elmo.parameters())
    pad_row = elmo.config.char_cnn.embedding
    assert elmo.parameter_count == learnt - pad_row
