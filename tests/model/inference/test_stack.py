"""One direction for inference: the outputs and the state of the trained stack."""

import pytest
import torch

from elmo_model.inference.stack import InferenceStack
from elmo_model.network.config import LSTMConfig
from elmo_model.network.stack import Stack

SIZES = [4, 3, 3, 1]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("layers", [1, 3])
@torch.inference_mode()
def test_outputs_and_state_are_those_of_the_trained_stack(layers: int, skip: bool) -> None:
    stack = Stack(LSTMConfig(layers, 8, 4, 3.0, 3.0, skip), dropout=0.5).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in stack.parameters():
        parameter.normal_(0, 0.5, generator=generator)
    tokens, h, c = torch.randn(11, 4), torch.randn(layers, 4, 4), torch.randn(layers, 4, 8)
    outputs, last_h, last_c = stack(tokens, SIZES, h, c)
    fast = InferenceStack(stack, "float32")
    projected = fast.layers[0].project(tokens)

    for found in (
        fast.run(tokens, SIZES, h, c),
        fast.run(torch.arange(11), SIZES, h, c, projected),
    ):
        for one, other in zip([*found[0], *found[1:]], [*outputs, last_h, last_c], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
