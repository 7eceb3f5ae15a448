"""Linear maps for inference, in the fastest form for their device and precision."""

import torch
from torch import Tensor

from elmo_model.inference.linear.linear import Linear
from elmo_model.inference.linear.packed import PackedBFloat16Linear, PackedLinear
from elmo_model.inference.linear.plain import PlainLinear, ReducedLinear
from elmo_model.inference.linear.quantised import QuantisedLinear
from elmo_model.inference.linear.supported import packs_bfloat16, packs_float32, quantises
from elmo_model.precision import Precision

__all__ = ["Linear", "linear_of"]


def linear_of(weight: Tensor, precision: Precision) -> Linear:
    """Return the product with a matrix (outputs, inputs) in its fastest form on its device.

    Raises ValueError for int8 on a device or a build of torch without an exact 8-bit product.
    """
    packs = weight.device.type == "cpu" and weight.dtype == torch.float32
    match precision:
        case "int8":
            if not (packs and quantises()):
                raise ValueError("int8 takes a CPU with VNNI and a torch with oneDNN")
            return QuantisedLinear(weight)
        case "bfloat16" if packs and packs_bfloat16():
            return PackedBFloat16Linear(weight)
        case "bfloat16" | "float16":
            return ReducedLinear(weight, getattr(torch, precision))
        case _:
            return PackedLinear(weight) if packs and packs_float32() else PlainLinear(weight)
