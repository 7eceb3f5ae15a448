"""Matrix products: as they are learnt, and in the forms that inference takes them in."""

from typing import Literal, get_args

import torch
from torch import Tensor

from elmo_model.inference.linear.fixed import FixedProduct, ReducedProduct
from elmo_model.inference.linear.packed import (
    PackedProduct,
    PackedReducedProduct,
    QuantisedProduct,
    onednn_packs,
    onednn_packs_bfloat16,
    onednn_quantises,
)
from elmo_model.inference.linear.product import Product

Precision = Literal["float32", "bfloat16", "float16", "int8"]

PreparedProduct = (
    FixedProduct | ReducedProduct | PackedProduct | PackedReducedProduct | QuantisedProduct
)

__all__ = ["Precision", "PreparedProduct", "Product", "check_precision", "prepared"]


def prepared(weight: Tensor, precision: Precision) -> PreparedProduct:
    """Return the product with a matrix (outputs, inputs) in its fastest form on its device.

    Raises ValueError for int8 where there is no exact 8-bit product.
    """
    packs = weight.device.type == "cpu" and weight.dtype == torch.float32
    match precision:
        case "int8":
            if not (packs and onednn_quantises()):
                raise ValueError("int8 takes a CPU with VNNI and a torch with oneDNN")
            return QuantisedProduct(weight)
        case "bfloat16" if packs and onednn_packs_bfloat16():
            return PackedReducedProduct(weight)
        case "bfloat16" | "float16":
            return ReducedProduct(weight, getattr(torch, precision))
        case _:
            return PackedProduct(weight) if packs and onednn_packs() else FixedProduct(weight)


def check_precision(precision: str) -> None:
    """Raise ValueError for a precision that is not one of `Precision`."""
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise ValueError(f"precision is {precision!r}, expected one of {known}")
