"""Every form of a linear map gives the plain product."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference.linear import linear_of
from elmo_model.inference.linear.packed import PackedLinear
from elmo_model.inference.linear.plain import PlainLinear
from elmo_model.inference.linear.supported import packs_float32, quantises
from elmo_model.precision import PRECISIONS, Precision

# Of the largest number of a product whose terms are about 1.
TOLERANCES: dict[str, float] = {"float32": 1e-5, "bfloat16": 0.2, "float16": 0.03, "int8": 0.25}
NEEDS_8_BITS = pytest.mark.skipif(not quantises(), reason="no exact 8-bit product here")
EVERY_PRECISION = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in PRECISIONS
]


def weights() -> Tensor:
    return torch.randn(40, 24, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("precision", EVERY_PRECISION)
def test_every_form_gives_the_same_product(rows: int, precision: Precision) -> None:
    weight = weights()
    form = linear_of(weight, precision)
    generator = torch.Generator().manual_seed(rows)
    inputs = torch.randn(rows, 24, generator=generator)
    bias = torch.randn(40, generator=generator)

    with torch.no_grad():
        truth = inputs @ weight.T
        addend = form.with_bias(inputs, bias)
        pairs = [
            (form.linear(inputs), truth),
            (addend.float(), truth + bias),
            (form.addmm(addend, inputs) - addend, truth),
        ]

    for ours, expected in pairs:
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, expected, rtol=0, atol=TOLERANCES[precision])


def test_packing_is_used_where_torch_has_it() -> None:
    expected = PackedLinear if packs_float32() else PlainLinear
    assert isinstance(linear_of(weights(), "float32"), expected)


def test_other_types_stay_plain() -> None:
    form = linear_of(weights().double(), "float32")
    assert isinstance(form, PlainLinear)
    assert form.linear(torch.ones(1, 24, dtype=torch.float64)).dtype == torch.float64


def test_8_bits_are_refused_where_they_are_not_exact() -> None:
    with pytest.raises(ValueError, match="VNNI"):
        linear_of(weights().double(), "int8")
