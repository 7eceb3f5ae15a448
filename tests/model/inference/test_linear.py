"""Linear maps: every form gives the plain product and is tried before it is used."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference.linear import (
    HalfWeightLinear,
    PackedLinear,
    QuantisedLinear,
    TorchLinear,
    form_of,
    gives_the_product,
    has_eight_bits,
    linear_of,
    packs,
)
from elmo_model.inference.precision import PRECISIONS, Precision

# Of the largest number of a product whose terms are about 1.
TOLERANCES: dict[str, float] = {"float32": 1e-5, "bfloat16": 0.2, "float16": 0.03, "int8": 0.25}
NEEDS_8_BITS = pytest.mark.skipif(not has_eight_bits(), reason="no exact 8-bit product here")
EVERY_PRECISION = [
    pytest.param(name, marks=NEEDS_8_BITS if name == "int8" else ()) for name in PRECISIONS
]


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def weights() -> Tensor:
    return drawn(40, 24)


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
    expected = PackedLinear if packs(torch.float32) else TorchLinear
    assert isinstance(linear_of(weights(), "float32"), expected)


def test_8_bits_are_refused_where_they_are_not_exact() -> None:
    """As doubles anywhere, and as any weights on a processor without VNNI."""
    for weight in [weights().double(), *([] if has_eight_bits() else [weights()])]:
        with pytest.raises(ValueError, match="VNNI"):
            linear_of(weight, "int8")


@pytest.mark.skipif(not packs(torch.float32), reason="torch without packed float32")
def test_packing_takes_weights_in_any_memory_order() -> None:
    weight, inputs = drawn(3, 4), drawn(2, 3)
    found = PackedLinear(weight.T).linear(inputs)
    torch.testing.assert_close(found, inputs @ weight, rtol=0, atol=1e-5)


def test_a_reduced_product_has_16_bit_factors_and_the_type_of_its_addend() -> None:
    form = TorchLinear(drawn(4, 3), torch.float16)
    inputs = drawn(2, 3)
    assert form.linear(inputs).dtype == torch.float32
    assert form.addmm(torch.zeros(2, 4), inputs).dtype == torch.float32
    assert form.with_bias(inputs, torch.zeros(4)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # by FBGEMM, and by torch
def test_a_weight_that_float16_cannot_hold_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="70000"):
        linear_of(torch.full((2, 2), 70_000.0, dtype=dtype), "float16")


@NEEDS_8_BITS
def test_no_row_changes_the_rounding_of_another() -> None:
    form = QuantisedLinear(weights())
    inputs = drawn(3, 24)
    loud = torch.cat((inputs[:1], 1000 * inputs[1:]))

    alone = form.linear(inputs[:1])

    assert torch.equal(form.linear(loud)[:1], alone)


@NEEDS_8_BITS
def test_a_row_of_zeros_is_exactly_zero() -> None:
    assert not QuantisedLinear(weights()).linear(torch.zeros(2, 24)).any()


class Wrong(TorchLinear):
    def linear(self, inputs: Tensor) -> Tensor:
        return super().linear(inputs) + 0.1


class WrongSum(TorchLinear):
    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        return super().addmm(addend, inputs) + 0.1


class Missing(TorchLinear):
    def __init__(self, weight: Tensor) -> None:
        torch.ops.mkldnn._no_such_operator(weight)


@pytest.mark.parametrize("form", [Wrong, WrongSum, Missing])
def test_another_product_is_not_used(form: type[TorchLinear]) -> None:
    assert not gives_the_product(form, 1e-5)


@pytest.mark.skipif(not packs(torch.float16), reason="torch without FBGEMM")
def test_a_matrix_with_float16_weights_is_multiplied_in_parts_with_the_same_bits() -> None:
    weight, inputs = drawn(3000, 512), drawn(33, 512)
    parts = [HalfWeightLinear(part).linear(inputs) for part in torch.split(weight, 1000)]
    assert torch.equal(HalfWeightLinear(weight).linear(inputs), torch.cat(parts, dim=1))


@pytest.mark.skipif(not packs(torch.float16), reason="torch without FBGEMM")
def test_float32_products_have_float16_weights_where_these_are_not_rounded() -> None:
    """A float32 product adds the same numbers, in any order: 1e-5 of numbers of about 5."""
    weight = weights().half().float()
    assert form_of("float32", [weight]) == "float16"
    assert form_of("bfloat16", [weight]) == "bfloat16"
    inputs = drawn(3, 24)
    found, expected = HalfWeightLinear(weight).linear(inputs), inputs @ weight.T
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

    for other in (weights(), weight.double(), torch.full((2, 2), 40_000.0)):
        assert form_of("float32", [weight, other]) == "float32"
    far = torch.zeros(2048, 1024)
    on_avx2 = torch.backends.cpu.get_cpu_capability() == "AVX2"
    assert form_of("float32", [far]) == ("float16" if on_avx2 else "float32")
