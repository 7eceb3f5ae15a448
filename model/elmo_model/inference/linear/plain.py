"""Linear maps by torch's own matrix multiplication: any device, any type."""

import torch
from torch import Tensor
from torch.nn import functional


class PlainLinear:
    """The product in the type of its weights, which are used where they lie."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return functional.linear(inputs, self.weight)

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return functional.linear(inputs, self.weight, bias)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend` of that shape."""
        return torch.addmm(addend, inputs, self.weight.T)


class ReducedLinear:
    """The product with 16-bit factors; the sum keeps the addend's type."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.to(dtype)

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), of the type of the inputs."""
        return self._product(inputs).to(inputs.dtype)

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return self.addmm(bias, inputs)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend`, of the addend's type."""
        return torch.add(addend, self._product(inputs))

    def _product(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) in the type of the weights."""
        return functional.linear(inputs.to(self.weight.dtype), self.weight)
