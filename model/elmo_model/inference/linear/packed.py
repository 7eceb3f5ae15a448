"""Products for inference on a CPU, their weights in the order in which oneDNN reads them.

For the few rows of a time step two to eight times as fast as the plain product. oneDNN is reached
by operators of torch that are no public interface: each is tried before it is relied on.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn


class PackedProduct(nn.Module):
    """The float32 product."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        # no buffer: the packed form has no other device or type to go to
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return _product(inputs, self.packed, None)

    def addend(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return _product(inputs, self.packed, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus another product's `addend`."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            inputs, addend, self.packed, None, "add"
        )
        return product


class PackedReducedProduct(nn.Module):
    """The product with bfloat16 factors; sums are float32, rounded when they are written."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        reduced = weight.to(torch.bfloat16).contiguous()
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(reduced)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return _product(inputs.to(torch.bfloat16), self.packed, None).to(inputs.dtype)

    def addend(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,), in bfloat16."""
        return _product(inputs.to(torch.bfloat16), self.packed, bias.to(torch.bfloat16))

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus another product's `addend`."""
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            inputs.to(torch.bfloat16), addend, self.packed, None, "add"
        )
        return total.to(inputs.dtype)


class QuantisedProduct(nn.Module):
    """The product with 8-bit factors: a scale for each output, and one for each row of inputs.

    A row's scale is its own largest number, so that no row depends on those beside it.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scales = weight.abs().amax(dim=1).clamp_(min=_SMALLEST).div_(_LARGEST)
        rounded = (weight / scales[:, None]).round_().to(torch.int8)
        self.packed: Tensor = torch.ops.onednn.qlinear_prepack(rounded.contiguous(), None)
        self.scales = scales
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        product, scale = self._product(inputs)
        return product.mul_(scale)

    def addend(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return self.plus(inputs, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus another product's `addend`."""
        product, scale = self._product(inputs)
        return torch.addcmul(addend, product, scale, out=product)

    def _product(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        scale = inputs.abs().amax(dim=1, keepdim=True).clamp_(min=_SMALLEST).div_(_LARGEST)
        # Unsigned, because that is what the processor multiplies: signed factors take a slow path.
        # torch rounds to signed bytes seven times as fast as to unsigned ones, and they are 128
        # apart: one bit.
        signed = (inputs / scale).round_().to(torch.int8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            signed.view(torch.uint8).bitwise_xor_(_ZERO), 1.0, _ZERO,
            self.packed, self.scales, self.zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product, scale


@cache
def onednn_packs() -> bool:
    """Tell whether this build of torch multiplies packed float32."""
    return _gives_the_product(PackedProduct, 1e-5)


@cache
def onednn_packs_bfloat16() -> bool:
    """Tell whether this build of torch multiplies packed bfloat16."""
    return _gives_the_product(PackedReducedProduct, 0.05)


@cache
def onednn_quantises() -> bool:
    """Tell whether this build of torch and this processor multiply 8-bit factors exactly.

    Processors without VNNI add pairs in 16 bits, which the largest factors overflow.
    """
    return _gives_the_product(QuantisedProduct, 0.05) and _gives_the_product(
        QuantisedProduct, 1e-4, torch.ones
    )


_LARGEST, _ZERO, _SMALLEST = 127.0, 128, 1e-30


def _product(inputs: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
    return product


def _gives_the_product(
    form: type[PackedProduct | PackedReducedProduct | QuantisedProduct],
    tolerance: float,
    draw: Callable[[tuple[int, int]], Tensor] | None = None,
) -> bool:
    generator = torch.Generator().manual_seed(0)
    draw = draw or (lambda shape: torch.randn(shape, generator=generator) / 4)
    weight, inputs, bias = draw((32, 64)), draw((3, 64)), draw((1, 32))[0]
    try:
        with torch.no_grad():
            packed = form(weight)
            plain, twice = packed(inputs), packed.plus(inputs, packed.addend(inputs, bias))
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    product = inputs @ weight.T
    close = (
        torch.allclose(plain, product, rtol=tolerance, atol=tolerance),
        torch.allclose(twice, 2 * product + bias, rtol=tolerance, atol=tolerance),
    )
    return all(close)
