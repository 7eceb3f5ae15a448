"""Rows of numbers as signed bytes with a scale for each row."""

from typing import Final

import torch
from torch import Tensor

_LARGEST: Final = 127.0  # of a signed byte
_SMALLEST: Final = 1e-30  # scale before division: keeps a row of zeros from being divided by zero


def to_bytes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Map rows (n, k) to int8 (n, k) and their scales (n, 1).

    The product of both is the rows, to half a scale. The scale of a row comes from its own largest
    number, which becomes 127, so no row depends on the other rows.
    """
    scale = rows.abs().amax(dim=1, keepdim=True).clamp_(min=_SMALLEST).div_(_LARGEST)
    return (rows / scale).round_().to(torch.int8), scale
