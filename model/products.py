"""Matrix products with learnt weights: as they are trained, and laid out for inference."""

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

    def prepared(self, precision: Precision) -> nn.Module:
        """Return the same product for inference, on the device where the weight is.

        Raises ValueError for an unknown precision.
        """
        check_precision(precision)
        if precision == "float32":
            return FixedProduct(self.weight.detach())
        return ReducedProduct(self.weight.detach(), getattr(torch, precision))


class FixedProduct(nn.Module):
    """The product as it is, without gradients."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        return functional.linear(inputs, self.weight, bias)


class ReducedProduct(nn.Module):
    """The product with 16-bit factors; what goes in and comes out keeps its own type.

    Cells, gates and clips stay exact: only the factors of the large products are rounded.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(dtype), persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus `bias` (outputs,)."""
        reduced = functional.linear(inputs.to(self.weight.dtype), self.weight).to(inputs.dtype)
        return reduced if bias is None else reduced + bias


def check_precision(precision: str) -> None:
    """Raise ValueError for a precision that is not one of `Precision`."""
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise ValueError(f"precision is {precision!r}, expected one of {known}")
