"""The network in float64 against AllenNLP; `allennlp/test_module` has float32 and the gradients."""

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from tests.support import golden


@pytest.mark.parametrize("stateful", [False, True])
def test_layers_and_states_are_those_of_allennlp(stateful: bool) -> None:
    """The batches have 4, 6, 2 and 6 rows: the state grows, and rows beyond a batch stay."""
    expected = golden.arrays("stateful_f64" if stateful else "stateless_f64")
    states, state, elmo = golden.arrays("states"), None, load(golden.SMALL).double()
    for batch, members, sentences in golden.batches():
        with torch.no_grad():
            representations, after = elmo(sentences, state)
        for member, layers in zip(members, representations.sentences(), strict=True):
            answer = expected[f"b{batch}_s{member}_full"]
            # what an independent NumPy implementation met, with room: see tests/golden/README.md
            np.testing.assert_allclose(layers.numpy(), answer, rtol=0, atol=2e-6)
        if stateful:
            state = after
            # the golden states are float32
            np.testing.assert_allclose(state.h.numpy(), states[f"b{batch}_h"], rtol=0, atol=5e-5)
            np.testing.assert_allclose(state.c.numpy(), states[f"b{batch}_c"], rtol=0, atol=5e-5)


def test_the_row_of_no_token_learns_nothing() -> None:
    _, _, sentences = next(golden.batches())
    elmo = load(golden.SMALL)
    representations, _ = elmo(sentences)
    torch.autograd.backward(representations.layers.sum())
    gradient = elmo.get_parameter("token_embedder.char_cnn.characters").grad
    assert gradient is not None
    assert not gradient[0].any() and gradient[261].any()
