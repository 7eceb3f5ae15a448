"""The update of an LSTM's cell between its two products, and the fastest way to compute it."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

_log = logging.getLogger(__name__)

GateUpdate = Callable[[Tensor, Tensor, Tensor, float | None, torch.dtype], Tensor]


def plain(
    addend: Tensor, product: Tensor, c: Tensor, clip: float | None, dtype: torch.dtype
) -> Tensor:
    """Map both shares of the gates (rows, 4D) to half the cell's output (rows, D), of `dtype`.

    c (rows, D) is twice the cell and is updated in place. The gates are ordered as in
    `InferenceLSTM`: input, forget, output and twice the candidate.
    """
    i, f, o, j = torch.add(addend, product).sigmoid_().chunk(4, dim=1)
    c.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip is not None:
        c.clamp_(-2 * clip, 2 * clip)
    return c.sigmoid().sub_(0.5).mul_(o).to(dtype)


def fastest(like: Tensor) -> GateUpdate:
    """Return the update in one kernel for tensors like this one, or `plain` without such a kernel.

    The kernel takes CUDA and float32, Triton, a C compiler at run time and a folder to write to. It
    is tried first and used when it gives the same numbers.
    """
    if like.device.type != "cuda" or like.dtype != torch.float32:
        return plain
    try:
        from elmo_model.inference.cuda_graphs.fused_gates import fused  # noqa: PLC0415  # Triton is optional

        with torch.cuda.device(like.device):
            if agree(fused, like.device):
                return fused
        reason = "it gives other numbers"
    except Exception as error:  # of Triton, the compiler or the driver, of any kind
        reason = f"{type(error).__name__}: {error}"
    _log.info("the fused gate kernel is not used: %s", " ".join(reason.split()))
    return plain


def agree(update: GateUpdate, device: torch.device) -> bool:
    """Tell whether `update` gives the numbers of `plain`, in every type, with and without clip."""
    rows, cell = 3, 520  # more than one block of the kernel, and no whole number of blocks
    gates = torch.arange(rows * 4 * cell, device=device, dtype=torch.float32).sin_().mul_(4)
    addend, product = gates.view(rows, -1), gates.flip(0).view(rows, -1)
    before = addend[:, :cell].contiguous()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.01), (torch.float16, 2e-3)):
        for clip in (None, 0.25):
            ours, theirs = before.clone(), before.clone()
            half = update(addend, product.to(dtype), ours, clip, dtype)
            expected = plain(addend, product.to(dtype), theirs, clip, dtype)
            if half.dtype != dtype or not (
                torch.allclose(ours, theirs, rtol=0, atol=1e-5)
                and torch.allclose(half.float(), expected.float(), rtol=0, atol=tolerance)
            ):
                return False
    return True
