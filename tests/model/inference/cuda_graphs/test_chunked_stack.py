"""Chunks of one direction: which products they take."""

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.cuda_graphs.capturer import CaptureError
from elmo_model.inference.cuda_graphs.chunked_stack import ChunkedStack
from elmo_model.inference.cuda_graphs.gate_update import plain
from elmo_model.inference.linear.supported import packs_float32
from elmo_model.inference.stack import InferenceStack
from tests.support.checkpoints import write_pair


@pytest.mark.skipif(not packs_float32(), reason="torch without packed float32")
def test_packed_products_are_refused(tmp_path: Path) -> None:
    stack = InferenceStack(load(write_pair(tmp_path)).bilm.forward_stack, "float32")
    with pytest.raises(CaptureError, match="a PackedLinear cannot be captured"):
        ChunkedStack(stack, plain)


@torch.inference_mode()
def test_two_chunks_with_the_state_in_place_give_the_whole(tmp_path: Path) -> None:
    stack = InferenceStack(load(write_pair(tmp_path)).double().bilm.forward_stack, "float32")
    tokens = torch.randn(6, 3, 4, dtype=torch.float64)  # steps, rows, P
    h, c = torch.zeros(2, 3, 4).double(), torch.zeros(2, 3, 8).double()
    expected, last_h, last_c = stack.run(tokens.reshape(18, 4), [3] * 6, h, c)

    chunked, outputs = ChunkedStack(stack, plain), []
    for steps in (tokens[:4], tokens[4:]):
        out = torch.empty(2, steps.shape[0] * 3, 4, dtype=torch.float64)
        chunked.advance(steps.reshape(-1, 4), out, h, c)
        outputs.append(out)

    torch.testing.assert_close(torch.cat(outputs, dim=1), torch.stack(expected))
    torch.testing.assert_close(h, last_h)
    torch.testing.assert_close(c, 2 * last_c)
