"""Packed products: the types of their operands and results."""

import pytest
import torch

from elmo_model.inference.linear.packed import PackedBFloat16Linear, PackedLinear
from elmo_model.inference.linear.supported import packs_bfloat16, packs_float32


@pytest.mark.skipif(not packs_float32(), reason="torch without packed float32")
def test_packing_takes_weights_in_any_memory_order() -> None:
    weight, inputs = torch.randn(3, 4), torch.randn(2, 3)
    found = PackedLinear(weight.T).linear(inputs)
    torch.testing.assert_close(found, inputs @ weight, rtol=0, atol=1e-5)


@pytest.mark.skipif(not packs_bfloat16(), reason="torch without packed bfloat16")
def test_only_the_operand_of_a_sum_is_bfloat16() -> None:
    form, inputs = PackedBFloat16Linear(torch.randn(4, 3)), torch.randn(2, 3)
    addend = form.with_bias(inputs, torch.zeros(4))
    assert addend.dtype == torch.bfloat16
    assert form.addmm(addend, inputs).dtype == form.linear(inputs).dtype == torch.float32
