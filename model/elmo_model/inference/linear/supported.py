"""Which forms of linear maps this build of torch and this processor compute right."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from elmo_model.inference.linear.linear import Linear
from elmo_model.inference.linear.packed import PackedBFloat16Linear, PackedLinear
from elmo_model.inference.linear.quantised import QuantisedLinear


@cache
def packs_float32() -> bool:
    """Tell whether this build of torch multiplies packed float32."""
    return gives_the_product(PackedLinear, 1e-5)


@cache
def packs_bfloat16() -> bool:
    """Tell whether this build of torch multiplies packed bfloat16."""
    return gives_the_product(PackedBFloat16Linear, 0.05)


@cache
def quantises() -> bool:
    """Tell whether this build of torch and this processor multiply 8-bit factors exactly.

    Processors without VNNI add pairs in 16 bits, which the largest factors overflow.
    """
    return gives_the_product(QuantisedLinear, 0.05) and gives_the_product(
        QuantisedLinear, 1e-4, torch.ones
    )


def gives_the_product(
    form: Callable[[Tensor], Linear],
    tolerance: float,
    draw: Callable[[tuple[int, int]], Tensor] | None = None,
) -> bool:
    """Tell whether a form gives the product of matrices of a shape, to a tolerance.

    `draw` gives their numbers, by default random ones. An operator that torch lacks counts as no.
    """
    generator = torch.Generator().manual_seed(0)
    draw = draw or (lambda shape: torch.randn(shape, generator=generator) / 4)
    weight, inputs, bias = draw((32, 64)), draw((3, 64)), draw((1, 32))[0]
    try:
        with torch.no_grad():
            made = form(weight)
            plain, twice = made.linear(inputs), made.addmm(made.with_bias(inputs, bias), inputs)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    product = inputs @ weight.T
    close = (
        torch.allclose(plain, product, rtol=tolerance, atol=tolerance),
        torch.allclose(twice, 2 * product + bias, rtol=tolerance, atol=tolerance),
    )
    return all(close)
