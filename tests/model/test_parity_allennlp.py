"""The network against AllenNLP's layers and carried state; `test_elmo_module` has the rest."""

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.network.elmo import ElmoNetwork
from tests.support import golden

# What an independent NumPy implementation met, with room: see tests/golden/README.md.
TYPES = [
    pytest.param(torch.float32, "", 5e-5, id="float32"),
    pytest.param(torch.float64, "_f64", 2e-6, id="float64"),
]


@pytest.fixture
def elmo() -> ElmoNetwork:
    return load(golden.SMALL)


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


def test_the_row_of_no_token_learns_nothing(elmo: ElmoNetwork) -> None:
    _, _, sentences = next(golden.batches())
    representations, _ = elmo(sentences)
    torch.autograd.backward(representations.layers.sum())
    gradient = elmo.get_parameter("token_embedder.char_cnn.characters").grad
    assert gradient is not None
    assert not gradient[0].any() and gradient[261].any()
