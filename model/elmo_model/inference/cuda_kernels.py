"""What a time step does between its two products, on a CUDA device in one launch each.

torch's own operations take nine launches for it, each of which reads and writes all gates. The
kernels are compiled at their first use, by the library that torch itself compiles with, so that no
compiler has to be installed. Where it cannot, torch's operations take their place.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

_log = logging.getLogger(__name__)
_THREADS = 256  # of a block
_TYPES = {  # a type, how it is made of a float and how it becomes one
    torch.float32: ("float", "return x;", "return x;"),
    torch.bfloat16: (
        "unsigned short",
        "unsigned bits = __float_as_uint(x);"  # to the nearest, ties to even; NaN stays NaN
        "return x != x ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;",
        "return __uint_as_float((unsigned)x << 16);",
    ),
    torch.float16: (
        "unsigned short",
        'unsigned short bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); return bits;',
        'float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y;',
    ),
}
_FUNCTIONS = """
typedef TYPE Factor;
__device__ Factor rounded(float x) { ROUND }
__device__ float widened(Factor x) { WIDEN }
__device__ float logistic(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ float tanh_of_half(float x) { return 2.0f * logistic(x) - 1.0f; }
__device__ float clipped(float x, float most) { return x > most ? most : x < -most ? -most : x; }
"""
_SOURCE = """
extern "C" __global__ void cell(const float* gates, const float* product, const float* bias,
    const long long* lengths, float* state, Factor* half, int step, int steps, int cells, int width,
    int parts, double clip)
{
    int unit = blockIdx.x * blockDim.x + threadIdx.x, rows = gridDim.y, row = blockIdx.y;
    long long direction = blockIdx.z, place = direction * rows + row;
    if (unit >= cells || step >= lengths[row]) return;
    const float* g = gates + ((direction * steps + step) * rows + row) * 4 * cells + unit;
    const float* p = product + place * 4 * cells + unit;
    const float* b = bias + direction * 4 * cells + unit;
    float z[4];
    bool is_added = product == gates;
    for (int k = 0; k < 4; ++k)
        z[k] = (is_added ? g[k * cells] : g[k * cells] + p[k * cells]) + b[k * cells];
    float* kept = state + (row * 2 + direction) * (width + cells) + width + unit;
    float c = clipped(logistic(z[1]) * *kept + logistic(z[0]) * tanh_of_half(z[3]), (float)clip);
    *kept = c;
    int part = cells / parts;
    place = (direction * parts + unit / part) * rows + row;
    half[place * part + unit % part] = rounded(0.5f * tanh_of_half(2.0f * c) * logistic(z[2]));
}

extern "C" __global__ void hidden(const float* product, const long long* lengths, float* state,
    Factor* h, float* outputs, int step, int steps, int cells, int width, int parts, double clip)
{
    int unit = blockIdx.x * blockDim.x + threadIdx.x, rows = gridDim.y, row = blockIdx.y;
    long long direction = blockIdx.z, place = direction * rows + row;
    if (unit >= width) return;
    float* kept = state + (row * 2 + direction) * (width + cells) + unit;
    if (step < lengths[row]) {
        float x = 0.0f;
        for (int part = 0; part < parts; ++part)
            x += product[((direction * parts + part) * rows + row) * width + unit];
        *kept = clipped(x, (float)clip);
        h[place * width + unit] = rounded(*kept);
    }
    outputs[((direction * steps + step) * rows + row) * width + unit] = *kept;
}
"""


@dataclass(frozen=True, slots=True)
class WindowTensors:
    """The tensors of the time steps of a window, of both directions.

    `lengths` (rows,) are the steps that a row takes part in: after them its state stays as it is,
    and its h is the output.
    `parts` are the parts of the sum over cells D that are added up last: a product with few rows
    has too few sums to keep a device busy.
    """

    gates: Tensor  # (2, steps, rows, 4D), float32
    bias: Tensor  # (2, 4D)
    lengths: Tensor  # (rows,), int64
    state: Tensor  # (rows, 2, P + D): h, and then c
    h: Tensor  # (2, rows, P), of the type of the factors
    half: Tensor  # (2 x parts, rows, D / parts), of the type of the factors: o tanh(c) / 2
    outputs: Tensor  # (2, steps, rows, P)
    cell_clip: float
    projection_clip: float

    @property
    def parts(self) -> int:
        """The parts of the sum over cells."""
        return len(self.half) // 2


Cell = Callable[[WindowTensors, Tensor | None, int], None]
"""Map the recurrent product in a time step to the next `half` and c; None: `gates` include it."""
Hidden = Callable[[WindowTensors, Tensor, int], None]
"""Map the projection's product, float32, in a time step to the next h and output."""


def cell_by_torch(window: WindowTensors, product: Tensor | None, step: int) -> None:
    """Map the recurrent product (2, rows, 4D) of a time step to `half` and the cells."""
    width, parts = window.h.shape[2], window.parts
    gates = window.gates[:, step]
    gates = (gates if product is None else gates + product) + window.bias[:, None]
    i, f, o, j = gates.chunk(4, dim=2)
    kept = window.state[..., width:].transpose(0, 1)
    new = f.sigmoid() * kept + i.sigmoid() * (j / 2).tanh()
    new.clamp_(-window.cell_clip, window.cell_clip)
    kept.copy_(torch.where(_live(window, step), new, kept))
    half = (new.tanh() * o.sigmoid() / 2).view(*new.shape[:2], parts, -1)
    window.half.copy_(half.transpose(1, 2).flatten(0, 1))


def hidden_by_torch(window: WindowTensors, product: Tensor, step: int) -> None:
    """Map the parts (2 x parts, rows, P) of a projection to h and the output of a time step."""
    new = product.view(2, window.parts, *product.shape[1:]).sum(dim=1)
    new.clamp_(-window.projection_clip, window.projection_clip)
    kept = window.state[..., : new.shape[2]].transpose(0, 1)
    kept.copy_(torch.where(_live(window, step), new, kept))
    window.h.copy_(kept)
    window.outputs[:, step].copy_(kept)


def _live(window: WindowTensors, step: int) -> Tensor:
    return (window.lengths > step)[None, :, None]


@cache
def pointwise(device: torch.device, dtype: torch.dtype) -> tuple[Cell, Hidden]:
    """Return the two maps of a time step on a device, for factors of a type."""
    if device.type != "cuda":
        return cell_by_torch, hidden_by_torch
    if (found := compiled(_SOURCE, ("cell", "hidden"), device, dtype)) is None:
        return cell_by_torch, hidden_by_torch
    return _cell(found[0]), _hidden(found[1])


def compiled(
    source: str, names: Sequence[str], device: torch.device, dtype: torch.dtype
) -> list[Any] | None:
    """Return kernels of a source by their names, for factors of a type; None where none can be.

    Raises torch.OutOfMemoryError where memory alone is missing: a later call may succeed, so
    callers that cache the result do not keep this failure.
    """
    if dtype not in _TYPES:
        return None
    head = _FUNCTIONS
    for word, text in zip(("TYPE", "ROUND", "WIDEN"), _TYPES[dtype], strict=True):
        head = head.replace(word, text)
    try:
        with torch.cuda.device(device):
            return [torch.cuda._compile_kernel(head + source, name) for name in names]
    except (AttributeError, ImportError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        if "out of memory" in reason.lower().replace("_", " "):
            raise torch.OutOfMemoryError(f"kernels on {device}: {reason}") from error
        _log.warning("slow time steps, %s on %s: %s; expected NVRTC", dtype, device, reason)
        return None


def _cell(kernel: Any) -> Cell:
    def run(window: WindowTensors, product: Tensor | None, step: int) -> None:
        gates, state = window.gates, window.state
        product = gates if product is None else product  # as the kernel takes it
        tensors = [gates, product, window.bias, window.lengths, state, window.half]
        _launch(kernel, window.bias.shape[1] // 4, tensors, window, step, window.cell_clip)

    return run


def _hidden(kernel: Any) -> Hidden:
    def run(window: WindowTensors, product: Tensor, step: int) -> None:
        tensors = [product, window.lengths, window.state, window.h, window.outputs]
        _launch(kernel, window.h.shape[2], tensors, window, step, window.projection_clip)

    return run


def _launch(
    kernel: Any, units: int, tensors: list[Tensor], window: WindowTensors, step: int, clip: float
) -> None:
    """Launch a kernel, which takes contiguous tensors, with a thread for each unit of each row."""
    _, steps, rows, gates = window.gates.shape
    sizes = [step, steps, gates // 4, window.h.shape[2], window.parts]
    launch(kernel, (units, rows, 2), [*tensors, *sizes, clip])


def limit(clip: float | None) -> float:
    """Return the bound of a clip as a kernel takes it."""
    return math.inf if clip is None else clip


def launch(kernel: Any, threads: tuple[int, int, int], arguments: list[Any]) -> None:
    """Launch a kernel with threads for units, rows and directions."""
    units, rows, directions = threads
    blocks = -(-units // _THREADS), rows, directions
    kernel(grid=blocks, block=(_THREADS, 1, 1), args=arguments)
