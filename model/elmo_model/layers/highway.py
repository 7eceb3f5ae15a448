"""The highway layer: a gated sum of its input and a transformed input."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Highway(nn.Module):
    """One highway layer (Srivastava et al. 2015) in the convention of bilm-tf.

    The gate called `carry` multiplies the transformed branch, against its name; AllenNLP's modules
    hold the negative of it. The transform is always a ReLU, whatever the activation of the CNN.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (words, width) to (words, width)."""
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, functional.relu(self.transform(inputs)), gate)
