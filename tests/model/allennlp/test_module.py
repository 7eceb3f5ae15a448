"""`Elmo` and `batch_to_ids`: AllenNLP's class, against what AllenNLP 2.10.1 computed."""

import copy
import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import elmo_model
import elmo_serve
from elmo_model.allennlp.character_ids import batch_to_ids
from elmo_model.allennlp.module import Elmo
from elmo_model.checkpoints.bilm_layout import encode
from tests.support import golden
from tests.support.golden import Array

SENTENCES = [["The", "cat", "sat", "."], [], ["a", "longer", "one", "with", "cats", "."]]
# What an independent NumPy implementation met, with room: see tests/golden/README.md.
TOLERANCE = 1e-5
FILES = (golden.SMALL / "options.json", golden.SMALL / "weights.hdf5")


def elmo_of(representations: int = 1, **options: Any) -> Elmo:
    return Elmo(*FILES, representations, **{"dropout": 0.0, **options})


def weighted(**options: Any) -> Elmo:
    """Return the module of the golden data: an even mix, and one that was trained."""
    elmo, expected = elmo_of(2, **options), golden.arrays("elmo_module")
    state = {
        f"scalar_mix_1.scalar_parameters.{number}": torch.tensor([value])
        for number, value in enumerate(expected["scalar_parameters"])
    }
    elmo.load_state_dict({**state, "scalar_mix_1.gamma": expected_gamma(expected)}, strict=False)
    return elmo


def expected_gamma(expected: dict[str, Array]) -> Tensor:
    return torch.tensor([float(expected["gamma"])])


def assert_close(ours: Tensor | Array, expected: Array) -> None:
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=0, atol=TOLERANCE)


def ids_of(batch: int) -> Tensor:
    return batch_to_ids(list(golden.batches())[batch][2])


def test_names_of_the_packages_are_the_class_itself() -> None:
    assert elmo_serve.Elmo is elmo_model.Elmo is Elmo
    assert elmo_serve.batch_to_ids is elmo_model.batch_to_ids is batch_to_ids


def test_ids_are_those_of_allennlp_and_zero_is_padding() -> None:
    expected, sentences = golden.arrays("char_ids"), golden.sentences()

    ids = batch_to_ids(sentences)

    assert ids.shape == (len(sentences), 35, 50) and ids.dtype == torch.int64
    for number, row in enumerate(ids):
        answer = expected[f"s{number}"]
        assert np.array_equal(row[: len(answer)], answer) and not row[len(answer) :].any()
    assert batch_to_ids([[]]).shape == (1, 0)
    with pytest.raises(ValueError, match="no sentence"):
        batch_to_ids([])
    with pytest.raises(ValueError, match="list of its tokens"):
        batch_to_ids(["a b"])


@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "requires_grad"])
@pytest.mark.parametrize("keep", [False, True], ids=["inside", "boundaries"])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "layer norm"])
def test_mixes_and_masks_are_those_of_allennlp(trained: bool, keep: bool, norm: bool) -> None:
    """The golden batches were computed in a row, with the state of the first in the second."""
    expected = golden.arrays("elmo_module")
    elmo = weighted(
        stateful=True, requires_grad=trained, keep_sentence_boundaries=keep, do_layer_norm=norm
    )

    for batch in range(2):
        output = elmo(ids_of(batch))
        name = f"ln{int(norm)}_keep{int(keep)}_batch{batch}"
        assert np.array_equal(output["mask"].numpy(), expected[f"{name}_mask"])
        for number, vectors in enumerate(output["elmo_representations"]):
            answer = expected[f"{name}_rep{number}"]
            assert_close(vectors.detach(), answer)


@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "requires_grad"])
@pytest.mark.parametrize("stateful", [False, True])
def test_layers_are_those_of_allennlp(trained: bool, stateful: bool) -> None:
    expected = golden.arrays("stateful" if stateful else "stateless")
    elmo = elmo_of(requires_grad=trained, stateful=stateful)

    for batch, members, sentences in golden.batches():
        layers = torch.stack(elmo._elmo_lstm(batch_to_ids(sentences))["activations"], dim=1)
        for member, vectors in zip(members, layers.detach(), strict=True):
            answer = expected[f"b{batch}_s{member}_full"]
            assert_close(vectors[:, : answer.shape[1]], answer)


@pytest.mark.parametrize("trained", [False, True], ids=["frozen", "requires_grad"])
def test_gradients_are_those_of_allennlp(trained: bool) -> None:
    expected = golden.arrays("gradients_batch0")
    elmo = weighted(requires_grad=trained)

    vectors = elmo(ids_of(0))["elmo_representations"][1]
    torch.autograd.backward((vectors * torch.from_numpy(expected["loss_weights"])).sum() / 100)

    network = elmo._elmo_lstm.network
    if trained:
        gradients = {name: _gradient(value) for name, value in network.named_parameters()}
        for name, gradient in encode(network.config, gradients).items():
            assert_close(gradient, expected[f"grad/{name}"])
    else:
        assert all(value.grad is None for value in network.parameters())
    parameters = dict(elmo.named_parameters())
    scalars = [_gradient(parameters[f"scalar_mix_1.scalar_parameters.{n}"]) for n in range(3)]
    assert_close(torch.cat(scalars), expected["grad/scalar_parameters"])
    assert_close(_gradient(parameters["scalar_mix_1.gamma"]), expected["grad/gamma"])


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_given_scalars_are_not_trained() -> None:
    elmo = elmo_of(scalar_mix_parameters=[0, 0, 50])  # integers, as AllenNLP takes them

    assert not [name for name, value in elmo.named_parameters() if value.requires_grad]
    ids = batch_to_ids(SENTENCES)
    top = elmo._elmo_lstm(ids)["activations"][2][:, 1:-1]
    vectors = elmo(ids)["elmo_representations"][0]
    torch.testing.assert_close(vectors[2], top[2], rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="3"):
        elmo_of(scalar_mix_parameters=[1.0])


def test_axes_before_the_tokens_are_kept() -> None:
    elmo, ids = elmo_of(), batch_to_ids([*SENTENCES, ["one"]])

    flat = elmo(ids)
    nested = elmo(ids.view(2, 2, *ids.shape[1:]))

    assert nested["mask"].equal(flat["mask"].view(2, 2, -1))
    vectors = nested["elmo_representations"][0]
    assert vectors.shape == (2, 2, 6, elmo.get_output_dim()) == (2, 2, 6, 32)
    assert vectors.equal(flat["elmo_representations"][0].view_as(vectors))


def test_dropout_is_that_of_the_caller_and_ends_with_training() -> None:
    elmo, ids = elmo_of(dropout=0.5), batch_to_ids(SENTENCES)

    dropped = elmo.train()(ids)["elmo_representations"][0][2]
    whole = elmo.eval()(ids)["elmo_representations"][0][2]

    zero = dropped == 0
    assert 0.3 < zero.float().mean() < 0.7
    torch.testing.assert_close(dropped[~zero], 2 * whole[~zero])


def test_words_that_were_cached_are_as_others() -> None:
    ids = batch_to_ids(SENTENCES)
    elmo = elmo_of(vocab_to_cache=["<pad>", "cat"])

    vectors = elmo(ids, torch.zeros(3, 6, dtype=torch.int64))["elmo_representations"][0]

    assert vectors.equal(elmo_of()(ids)["elmo_representations"][0])


def test_a_module_can_be_shared() -> None:
    one = elmo_of()
    other = Elmo(None, None, 1, dropout=0.0, module=one._elmo_lstm)

    assert other._elmo_lstm is one._elmo_lstm
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(other(ids)["elmo_representations"][0], one(ids)["elmo_representations"][0])
    with pytest.raises(ValueError, match="module"):
        Elmo(*FILES, 1, module=one._elmo_lstm)


def test_names_of_the_state_are_allennlps() -> None:
    names = elmo_of(2).state_dict().keys()

    assert {
        "scalar_mix_0.scalar_parameters.2",
        "scalar_mix_1.gamma",
        "_elmo_lstm._token_embedder._char_embedding_weights",
        "_elmo_lstm._token_embedder.char_conv_6.bias",
        "_elmo_lstm._token_embedder._highways._layers.1.weight",
        "_elmo_lstm._token_embedder._projection.weight",
        "_elmo_lstm._elmo_lstm.backward_layer_1.state_projection.weight",
    } <= names
    assert not [name for name in names if "network" in name]


def test_a_state_is_loaded_again_and_changes_the_vectors() -> None:
    ids, trained, fresh = batch_to_ids(SENTENCES), elmo_of(requires_grad=True), elmo_of()
    before = vectors_of(fresh, ids)
    with torch.no_grad():
        for value in trained.parameters():
            value.mul_(1.1)
    file = io.BytesIO()
    torch.save(trained.state_dict(), file)
    file.seek(0)

    fresh.load_state_dict(torch.load(file))

    torch.testing.assert_close(vectors_of(fresh, ids), vectors_of(trained, ids), rtol=0, atol=1e-5)
    assert not torch.allclose(before, vectors_of(fresh, ids), rtol=0, atol=1e-3)
    # the numbers of the files are those of the state again
    for name, value in trained.state_dict().items():
        torch.testing.assert_close(fresh.state_dict()[name], value, rtol=0, atol=1e-6)


def test_a_missing_or_foreign_name_of_a_state_is_named() -> None:
    elmo = elmo_of()
    state = dict(elmo.state_dict())
    del state["_elmo_lstm._elmo_lstm.forward_layer_0.state_linearity.bias"]

    with pytest.raises(RuntimeError, match=r"forward_layer_0\.state_linearity\.bias"):
        elmo.load_state_dict(state)
    with pytest.raises(RuntimeError, match="foreign"):
        elmo.load_state_dict({**elmo.state_dict(), "_elmo_lstm.foreign": torch.zeros(1)})


@pytest.mark.parametrize(
    "copied",
    [lambda elmo: pickle.loads(pickle.dumps(elmo)), copy.deepcopy],
    ids=["pickle", "deepcopy"],
)
def test_copies_have_weights_and_no_caches(copied: Any) -> None:
    elmo, ids = elmo_of(stateful=True), batch_to_ids(SENTENCES)
    fresh = len(pickle.dumps(elmo))
    elmo(ids)

    # the state of the next call, and no packed weights or cached words
    assert len(pickle.dumps(elmo)) < fresh + 20_000
    assert torch.equal(vectors_of(copied(elmo), ids), vectors_of(elmo, ids))


def test_another_type_of_numbers_makes_other_vectors() -> None:
    elmo, ids = elmo_of(), batch_to_ids(SENTENCES)
    before = vectors_of(elmo, ids)

    double = vectors_of(elmo.double(), ids)
    rounded = vectors_of(elmo.bfloat16().float(), ids)

    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), before, rtol=0, atol=1e-5)
    assert rounded.dtype == torch.float32 and not torch.allclose(rounded, before, atol=1e-4)


def test_a_model_that_was_thawed_is_trained() -> None:
    elmo, ids = elmo_of(), batch_to_ids(SENTENCES)
    vectors_of(elmo, ids)
    elmo.requires_grad_(True)

    torch.autograd.backward(vectors_of(elmo, ids).sum())

    assert all(_gradient(value).isfinite().all() for value in elmo._elmo_lstm.parameters())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda ids: ids[..., :40], "50"),
        (lambda ids: ids[0], "50"),
        (lambda _: batch_to_ids([[]]), "50"),
        (lambda ids: ids.flip(1), "padding"),
    ],
)
def test_ids_that_are_none_are_refused(change: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        elmo_of()(change(batch_to_ids(SENTENCES)))


def test_models_without_allennlps_characters_are_refused() -> None:
    folder: Path = golden.GOLDEN / "elmoformanylangs" / "char_only"
    with pytest.raises(ValueError, match="characters"):
        Elmo(folder, None, 1)


def vectors_of(elmo: Elmo, ids: Tensor) -> Tensor:
    representations: Sequence[Tensor] = elmo(ids)["elmo_representations"]
    return representations[0]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("options", [{}, {"do_layer_norm": True}, {"stateful": True}])
@pytest.mark.parametrize("shape", [(0, 3, 50), (2, 0, 3, 50)])
def test_no_sentence_has_no_vector(
    shape: tuple[int, ...], options: dict[str, Any], requires_grad: bool
) -> None:
    elmo = elmo_of(2, requires_grad=requires_grad, **options)

    found = elmo(torch.zeros(shape, dtype=torch.int64))

    width = elmo.get_output_dim()
    assert [each.shape for each in found["elmo_representations"]] == [(*shape[:-1], width)] * 2
    assert found["mask"].shape == shape[:-1] and found["mask"].dtype == torch.bool


@pytest.mark.parametrize("wrong", [[["a"]], "a", np.zeros((1, 2, 50), np.int64), None])
def test_other_things_than_ids_are_refused(wrong: Any) -> None:
    for called in (elmo_of(), elmo_of()._elmo_lstm):
        with pytest.raises(ValueError, match="batch_to_ids"):
            called(wrong)
