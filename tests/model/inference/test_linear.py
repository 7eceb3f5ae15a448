"""Products laid out for inference give what the plain product gives."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from elmo_model.inference.linear import Precision, Product, prepared
from elmo_model.inference.linear.fixed import FixedProduct
from elmo_model.inference.linear.packed import PackedProduct, QuantisedProduct, onednn_quantises

# Of the largest number of a product whose terms are about 1.
TOLERANCES: dict[str, float] = {"float32": 1e-5, "bfloat16": 0.2, "float16": 0.03, "int8": 0.25}
NEEDS_8_BITS = pytest.mark.skipif(not onednn_quantises(), reason="no exact 8-bit product here")
PRECISIONS = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in get_args(Precision)
]


def weights() -> Tensor:
    return torch.randn(40, 24, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_form_gives_the_same_product(rows: int, precision: Precision) -> None:
    weight = weights()
    form = prepared(weight, precision)
    generator = torch.Generator().manual_seed(rows)
    inputs = torch.randn(rows, 24, generator=generator)
    bias = torch.randn(40, generator=generator)

    with torch.no_grad():
        truth = inputs @ weight.T
        addend = form.addend(inputs, bias)
        pairs = [
            (form(inputs), truth),
            (addend.float(), truth + bias),
            (form.plus(inputs, addend) - addend, truth),
        ]

    for ours, expected in pairs:
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, expected, rtol=0, atol=TOLERANCES[precision])


@NEEDS_8_BITS
def test_no_row_changes_the_rounding_of_another() -> None:
    form = QuantisedProduct(weights())
    inputs = torch.randn(3, 24, generator=torch.Generator().manual_seed(1))
    loud = torch.cat((inputs[:1], 1000 * inputs[1:]))

    alone = form(inputs[:1])

    assert torch.equal(form(loud)[:1], alone)


@NEEDS_8_BITS
def test_a_row_of_zeros_is_exactly_zero() -> None:
    assert not QuantisedProduct(weights())(torch.zeros(2, 24)).any()


def test_packing_is_used_where_torch_has_it() -> None:
    assert isinstance(prepared(weights(), "float32"), PackedProduct)


def test_other_types_stay_plain() -> None:
    form = prepared(weights().double(), "float32")
    assert isinstance(form, FixedProduct)
    assert form(torch.ones(1, 24, dtype=torch.float64)).dtype == torch.float64


def test_8_bits_are_refused_where_they_are_not_exact() -> None:
    with pytest.raises(ValueError, match="VNNI"):
        prepared(weights().double(), "int8")


def test_a_plain_product_learns_through_both_forms_of_sum() -> None:
    plain = Product(24, 40)
    torch.nn.init.normal_(plain.weight, generator=torch.Generator().manual_seed(0))
    inputs = torch.randn(3, 24)
    addend = torch.zeros(3, 40, requires_grad=True)

    torch.testing.assert_close(plain(inputs, addend[0]), plain.plus(inputs, addend))
    torch.autograd.backward(plain.plus(inputs, addend).sum())

    assert addend.grad is not None and plain.weight.grad is not None
    torch.testing.assert_close(plain.weight.grad, inputs.sum(dim=0).expand(40, 24))
