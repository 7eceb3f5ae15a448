"""Plain products keep the memory of their weights and the type of their addend."""

import torch

from elmo_model.inference.linear.plain import PlainLinear, ReducedLinear


def test_a_plain_product_copies_no_weights() -> None:
    weight = torch.randn(4, 3)
    assert PlainLinear(weight).weight is weight


def test_a_reduced_product_has_16_bit_factors_and_the_type_of_its_addend() -> None:
    form = ReducedLinear(torch.randn(4, 3), torch.float16)
    inputs = torch.randn(2, 3)
    assert form.linear(inputs).dtype == torch.float32
    assert form.addmm(torch.zeros(2, 4), inputs).dtype == torch.float32
    assert form.with_bias(inputs, torch.zeros(4)).dtype == torch.float32
