"""Linear maps on a CPU whose weights lie in the order in which oneDNN reads them.

For the few rows of a time step they are two to eight times as fast as the plain product
(benchmarks/roofline.py). torch reaches oneDNN by operators that are no public interface, so
`elmo_model.inference.linear.supported` tries each of them before it is used.
"""

import torch
from torch import Tensor


class PackedLinear:
    """The float32 product."""

    def __init__(self, weight: Tensor) -> None:
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return _linear(inputs, self._packed, None)

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,)."""
        return _linear(inputs, self._packed, bias)

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend` of that shape."""
        return _addmm(addend, inputs, self._packed)


class PackedBFloat16Linear:
    """The product with bfloat16 factors; sums are float32 and rounded when they are written."""

    def __init__(self, weight: Tensor) -> None:
        reduced = weight.to(torch.bfloat16).contiguous()
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(reduced)

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), of the type of the inputs."""
        return _linear(inputs.to(torch.bfloat16), self._packed, None).to(inputs.dtype)

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,), in bfloat16."""
        return _linear(inputs.to(torch.bfloat16), self._packed, bias.to(torch.bfloat16))

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus a bfloat16 `addend`, of the inputs' type."""
        return _addmm(addend, inputs.to(torch.bfloat16), self._packed).to(inputs.dtype)


def _linear(inputs: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, packed, bias, "none", [], "")
    return product


def _addmm(addend: Tensor, inputs: Tensor, packed: Tensor) -> Tensor:
    total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(inputs, addend, packed, None, "add")
    return total
