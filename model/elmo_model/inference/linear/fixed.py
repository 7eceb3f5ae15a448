"""Products for inference by torch's own matrix multiplication: any device, any type."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class FixedProduct(nn.Module):
    """The product as it is, without gradients."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return functional.linear(inputs, self.weight)

    def bare(self, inputs: Tensor) -> Tensor:
        """As `forward`: there is one type."""
        return functional.linear(inputs, self.weight)

    def addend(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return functional.linear(inputs, self.weight, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus another product's `addend`."""
        return torch.addmm(addend, inputs, self.weight.T)


class ReducedProduct(nn.Module):
    """The product with 16-bit factors; sums keep the addend's type."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(dtype), persistent=False)
        self.weight: Tensor

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return self.bare(inputs).to(inputs.dtype)

    def bare(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) in the type of the factors."""
        return functional.linear(inputs.to(self.weight.dtype), self.weight)

    def addend(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return self.plus(inputs, bias)

    def plus(self, inputs: Tensor, addend: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), plus another product's `addend`."""
        return torch.add(addend, self.bare(inputs))
