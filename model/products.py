"""Matrix products with learnt weights: as they are trained, and laid out for inference."""

from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

Precision = Literal["float32", "bfloat16", "float16"]


class Product(nn.Module):
    """Multiply by a learnt matrix (outputs, inputs), whose numbers are set from outside."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        return functional.linear(inputs, self.weight, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `addend` of that shape."""
        return torch.addmm(addend, inputs, self.weight.T)


class PackedProduct(nn.Module):
    """The float32 product on a CPU, its weight in the order in which oneDNN reads it.

    Two to eight times as fast as the plain product for the few rows of a time step.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        # no buffer: the packed form has no other device or type to go to
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, self.packed, bias, "none", [], ""
        )
        return product

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `addend` of that shape."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            inputs, addend, self.packed, None, "add"
        )
        return product


class FixedProduct(nn.Module):
    """The product as it is, without gradients."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        return functional.linear(inputs, self.weight, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `addend` of that shape."""
        return torch.addmm(addend, inputs, self.weight.T)


class ReducedProduct(nn.Module):
    """The product with 16-bit factors; what goes in and comes out keeps its own type.

    Cells, gates and clips stay exact: only the factors of the large products are rounded, and
    what a product gives.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(dtype), persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        product = self._product(inputs)
        return product if bias is None else product + bias

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `addend` of that shape."""
        return addend + self._product(inputs)

    def _product(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs.to(self.weight.dtype), self.weight).to(inputs.dtype)


AnyProduct = Product | PackedProduct | FixedProduct | ReducedProduct


def prepared(product: AnyProduct, precision: Precision) -> AnyProduct:
    """Return the product in its inference form, on the device where its weight is.

    A product that was prepared before stays as it is.
    """
    if not isinstance(product, Product):
        return product
    weight = product.weight.detach()
    if precision != "float32":
        return ReducedProduct(weight, getattr(torch, precision))
    if weight.device.type == "cpu" and weight.dtype == torch.float32 and _onednn_packs():
        return PackedProduct(weight)
    return FixedProduct(weight)


def check_precision(precision: str) -> None:
    """Raise ValueError for a precision that is not one of `Precision`."""
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise ValueError(f"precision is {precision!r}, expected one of {known}")


@cache
def _onednn_packs() -> bool:
    """Tell whether this build of torch has the packed products, which are no public interface."""
    generator = torch.Generator().manual_seed(0)
    weight, inputs, addend = (
        torch.rand(shape, generator=generator) for shape in ((32, 16), (3, 16), (3, 32))
    )
    try:
        with torch.no_grad():
            packed = PackedProduct(weight)
            plain, plus = packed(inputs, addend[0]), packed.plus(inputs, addend)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False
    product = inputs @ weight.T
    return torch.allclose(plain, product + addend[0]) and torch.allclose(plus, product + addend)
