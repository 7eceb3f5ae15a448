"""The number formats of the large products: one table for the encoder, the worker and settings.

Imports no torch, so that the command line and the front process can read it.
"""

from dataclasses import dataclass
from typing import Literal

from elmo_model.errors import OptionError, shown

Precision = Literal["float32", "bfloat16", "float16", "int8"]


@dataclass(frozen=True, slots=True)
class Format:
    """How the products of the biLM are computed in one precision, and how exact they are.

    `tolerance` is the largest difference from float32 on the CPU that the self-test of a worker
    allows, as a share of the largest value. `block` is the number of positions whose input products
    are computed at once: a larger block makes a more efficient product, a smaller one leaves its
    result in the caches until the time steps read it (benchmarks/network.py). The product of int8
    is followed by another pass over it.
    """

    tolerance: float
    block: int


PRECISION_FORMATS: dict[Precision, Format] = {
    "float32": Format(tolerance=1e-3, block=256),
    "bfloat16": Format(tolerance=0.1, block=256),
    "float16": Format(tolerance=0.02, block=512),
    "int8": Format(tolerance=0.1, block=128),
}

PRECISIONS: tuple[Precision, ...] = tuple(PRECISION_FORMATS)


def precision_of(name: str) -> Precision:
    """Return the precision of this name. Raises OptionError, with the names, for an unknown one."""
    for precision in PRECISIONS:
        if precision == name:
            return precision
    raise OptionError(f"precision is {shown(name)}, expected one of {', '.join(PRECISIONS)}")
