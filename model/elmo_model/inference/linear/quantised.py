"""Linear maps on a CPU with 8-bit factors, by oneDNN."""

import torch
from torch import Tensor

# Signed bytes go up to 127. Bytes are sent as unsigned ones with 128 for zero. The smallest scale
# keeps a row of zeros from being divided by zero.
_LARGEST, _ZERO, _SMALLEST = 127.0, 128, 1e-30


class QuantisedLinear:
    """The product with 8-bit factors: one scale for each output and one for each row of inputs.

    The scale of a row comes from its own largest number, so no row depends on the other rows.
    """

    def __init__(self, weight: Tensor) -> None:
        scales = weight.abs().amax(dim=1).clamp_(min=_SMALLEST).div_(_LARGEST)
        rounded = (weight / scales[:, None]).round_().to(torch.int8)
        self._packed: Tensor = torch.ops.onednn.qlinear_prepack(rounded.contiguous(), None)
        self._scales = scales
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        product, scale = self._product(inputs)
        return product.mul_(scale)

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return self.addmm(bias, inputs)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend` of that shape."""
        product, scale = self._product(inputs)
        return torch.addcmul(addend, product, scale, out=product)

    def _product(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Map (rows, inputs) to (rows, outputs) and the scale (rows, 1) to multiply it by."""
        scale = inputs.abs().amax(dim=1, keepdim=True).clamp_(min=_SMALLEST).div_(_LARGEST)
        # The processor multiplies unsigned by signed bytes; signed inputs would take a slow path.
        # torch rounds to signed bytes seven times as fast as to unsigned ones, and the two differ
        # by 128: one bit.
        signed = (inputs / scale).round_().to(torch.int8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            signed.view(torch.uint8).bitwise_xor_(_ZERO), 1.0, _ZERO,
            self._packed, self._scales, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return product, scale
