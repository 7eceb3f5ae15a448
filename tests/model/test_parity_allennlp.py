"""The network against AllenNLP's answers: ids, layers, carried state, mixes, gradients."""

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.checkpoints.layout import encode
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.scalar_mix import ScalarMix, layer_norm, mix, normalise
from tests.support import golden

# What an independent NumPy implementation met, with room: see tests/golden/README.md.
TYPES = [
    pytest.param(torch.float32, "", 5e-5, id="float32"),
    pytest.param(torch.float64, "_f64", 2e-6, id="float64"),
]


@pytest.fixture
def elmo() -> ElmoNetwork:
    return load(golden.SMALL)


def test_character_ids_are_those_of_allennlp(elmo: ElmoNetwork) -> None:
    expected = golden.arrays("char_ids")
    for number, sentence in enumerate(golden.sentences()):
        ids = elmo.alphabet.encode(sentence, 50)
        assert np.array_equal(ids, expected[f"s{number}"])


@pytest.mark.parametrize(("dtype", "suffix", "tolerance"), TYPES)
def test_layers_from_zero_state_are_those_of_allennlp(
    elmo: ElmoNetwork, dtype: torch.dtype, suffix: str, tolerance: float
) -> None:
    expected = golden.arrays(f"stateless{suffix}")
    elmo.to(dtype)
    for batch, members, sentences in golden.batches():
        with torch.no_grad():
            representations, _ = elmo(sentences)
        for member, layers in zip(members, representations.sentences(), strict=True):
            answer = expected[f"b{batch}_s{member}_full"]
            np.testing.assert_allclose(layers.numpy(), answer, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "suffix", "tolerance"), TYPES)
def test_published_vectors_come_with_state_carried_between_batches(
    elmo: ElmoNetwork, dtype: torch.dtype, suffix: str, tolerance: float
) -> None:
    # The batches have 4, 6, 2 and 6 rows: the state grows, and keeps what a batch does not reach.
    expected, states = golden.arrays(f"stateful{suffix}"), golden.arrays("states")
    elmo.to(dtype)
    state = None
    for batch, members, sentences in golden.batches():
        with torch.no_grad():
            representations, state = elmo(sentences, state)
        for member, layers in zip(members, representations.sentences(), strict=True):
            answer = expected[f"b{batch}_s{member}_full"]
            np.testing.assert_allclose(layers.numpy(), answer, rtol=0, atol=tolerance)
        # the golden states are float32 in both cases
        np.testing.assert_allclose(state.h.numpy(), states[f"b{batch}_h"], rtol=0, atol=5e-5)
        np.testing.assert_allclose(state.c.numpy(), states[f"b{batch}_c"], rtol=0, atol=5e-5)


@pytest.mark.parametrize("normed", [False, True], ids=["plain", "layer norm"])
@pytest.mark.parametrize("number", [0, 1], ids=["even mix", "weighted mix"])
def test_scalar_mixes_are_those_of_allennlp(elmo: ElmoNetwork, normed: bool, number: int) -> None:
    expected = golden.arrays("elmo_module")
    weights, gamma = torch.zeros(3), 1.0
    if number:
        weights = torch.tensor(expected["scalar_parameters"], dtype=torch.float32)
        gamma = float(expected["gamma"])
    state = None
    for batch, _, sentences in golden.batches():
        if batch > 1:
            break
        with torch.no_grad():
            representations, state = elmo(sentences, state)
        # AllenNLP's statistics are those of the batch: all real tokens, boundaries included.
        layers = representations.layers
        mixed = mix(layer_norm(layers) if normed else layers, normalise(weights), gamma)
        for row, vectors in enumerate(torch.split(mixed, list(representations.lengths))):
            for keep, ours in ((1, vectors), (0, vectors[1:-1])):
                answer = expected[f"ln{int(normed)}_keep{keep}_batch{batch}_rep{number}"][row]
                np.testing.assert_allclose(ours.numpy(), answer[: len(ours)], rtol=0, atol=5e-5)


def test_gradients_are_those_of_allennlp(elmo: ElmoNetwork) -> None:
    expected = golden.arrays("gradients_batch0")
    module = golden.arrays("elmo_module")
    _, _, sentences = next(golden.batches())
    scalars = ScalarMix(3, [float(each) for each in module["scalar_parameters"]])
    with torch.no_grad():
        scalars.gamma.fill_(float(module["gamma"]))

    representations, _ = elmo(sentences)
    mixed = torch.split(scalars(representations.layers), list(representations.lengths))
    loss = torch.zeros(())
    for vectors, weights in zip(mixed, expected["loss_weights"], strict=True):
        inner = vectors[1:-1]
        loss = loss + (inner * torch.from_numpy(weights[: len(inner)])).sum() / 100
    torch.autograd.backward(loss)

    assert loss.item() == pytest.approx(float(expected["loss"]), abs=5e-5)
    gradients = {name: value.grad for name, value in elmo.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values())
    ours = encode(elmo.config, {n: g for n, g in gradients.items() if g is not None})
    assert ours.keys() == {name[5:] for name in expected if "/" in name} - {
        "scalar_parameters",
        "gamma",
    }
    for name, gradient in ours.items():
        np.testing.assert_allclose(gradient, expected[f"grad/{name}"], rtol=0, atol=5e-5)
    assert scalars.gamma.grad is not None
    for parameter, gradient in zip(
        scalars.scalar_parameters, expected["grad/scalar_parameters"], strict=True
    ):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.numpy(), gradient, rtol=0, atol=5e-5)
    np.testing.assert_allclose(
        scalars.gamma.grad.numpy(), expected["grad/gamma"], rtol=0, atol=5e-5
    )


def test_the_row_of_no_token_learns_nothing(elmo: ElmoNetwork) -> None:
    _, _, sentences = next(golden.batches())
    representations, _ = elmo(sentences)
    torch.autograd.backward(representations.layers.sum())
    gradient = elmo.get_parameter("token_embedder.char_cnn.characters").grad
    assert gradient is not None
    assert not gradient[0].any() and gradient[261].any()
