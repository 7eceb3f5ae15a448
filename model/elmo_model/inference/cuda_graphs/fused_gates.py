"""`gate_update.plain` in one kernel. Imports Triton, which comes with torch for CUDA."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Columns of a program; a larger block keeps more values in the registers of one.
_BLOCK = 512


def fused(
    addend: Tensor, product: Tensor, c: Tensor, clip: float | None, dtype: torch.dtype
) -> Tensor:
    """As `gate_update.plain`; every tensor contiguous."""
    rows, cell = c.shape
    half = torch.empty(rows, cell, dtype=dtype, device=c.device)
    bound = 0.0 if clip is None else 2.0 * clip  # Triton makes another kernel for a whole number
    grid = (rows, triton.cdiv(cell, _BLOCK))
    _kernel[grid](addend, product, c, half, cell, bound, clip is not None, _BLOCK)
    return half


def _program(
    addend: tl.tensor,
    product: tl.tensor,
    twice: tl.tensor,
    half: tl.tensor,
    cell: tl.tensor,
    bound: tl.tensor,
    clipped: tl.constexpr,
    block: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < cell
    gate = row * 4 * cell + column
    i = tl.load(addend + gate, inside) + tl.load(product + gate, inside)
    gate += cell
    f = tl.load(addend + gate, inside) + tl.load(product + gate, inside)
    gate += cell
    o = tl.load(addend + gate, inside) + tl.load(product + gate, inside)
    gate += cell
    j = tl.load(addend + gate, inside) + tl.load(product + gate, inside)
    place = row * cell + column
    c = tl.sigmoid(f) * tl.load(twice + place, inside)
    c += 4.0 * tl.sigmoid(i) * (tl.sigmoid(j) - 0.5)
    if clipped:
        # comparisons instead of min and max, which would turn NaN into a number
        c = tl.where(c > bound, bound, tl.where(c < -bound, -bound, c))
    tl.store(twice + place, c, inside)
    output = (tl.sigmoid(c) - 0.5) * tl.sigmoid(o)
    tl.store(half + place, output.to(half.dtype.element_ty), inside)


_kernel = triton.jit(_program)
