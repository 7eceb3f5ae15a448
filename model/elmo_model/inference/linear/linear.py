"""The interface of a linear map for inference."""

from typing import Protocol

from torch import Tensor


class Linear(Protocol):
    """A matrix (outputs, inputs) that is never trained, in a form that multiplies fast."""

    def linear(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs), of the type of the inputs."""

    def with_bias(self, inputs: Tensor, bias: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `bias` (outputs,).

        The result may have fewer bits than the inputs: it is made to be an operand of `addmm`.
        """

    def addmm(self, addend: Tensor, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs) plus `addend` of that shape.

        The result has the type of the inputs. It may lie in new memory or in that of the product.
        """
