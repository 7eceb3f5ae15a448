"""A product with a matrix that is learnt."""

import torch
from torch import Tensor, nn
from torch.nn import functional


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
