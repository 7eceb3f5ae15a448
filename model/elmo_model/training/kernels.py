"""What a time step of training does between its two products, on a CUDA device in one launch.

In bfloat16 torch's own operations take 16 launches in the forward pass and 23 in the backward one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from elmo_model.inference.cuda_kernels import compiled, launch, limit

_SOURCE = """
extern "C" __global__ void step(const Factor* sums, const float* before, const Factor* keep,
    Factor* gates, float* cell, float* tanh_c, Factor* unprojected, int cells, double clip)
{
    int unit = blockIdx.x * blockDim.x + threadIdx.x;
    if (unit >= cells) return;
    long long row = blockIdx.y, place = row * cells + unit, first = 4 * row * cells + unit;
    float i = logistic(widened(sums[first])), f = logistic(widened(sums[first + 2 * cells]));
    float j = tanh_of_half(2.0f * widened(sums[first + cells]));
    float o = logistic(widened(sums[first + 3 * cells]));
    float c = clipped(f * before[place] * widened(keep[row]) + i * j, (float)clip);
    float t = tanh_of_half(2.0f * c);
    gates[first] = rounded(i);
    gates[first + cells] = rounded(j);
    gates[first + 2 * cells] = rounded(f);
    gates[first + 3 * cells] = rounded(o);
    cell[place] = c;
    tanh_c[place] = t;
    unprojected[place] = rounded(o * t);
}

extern "C" __global__ void step_backward(const Factor* d_unprojected, const float* d_cell,
    const Factor* gates, const float* cell, const float* before, const Factor* keep,
    const float* tanh_c, Factor* d_sums, float* d_before, int cells, double clip)
{
    int unit = blockIdx.x * blockDim.x + threadIdx.x;
    if (unit >= cells) return;
    long long row = blockIdx.y, place = row * cells + unit, first = 4 * row * cells + unit;
    float i = widened(gates[first]), j = widened(gates[first + cells]);
    float f = widened(gates[first + 2 * cells]), o = widened(gates[first + 3 * cells]);
    float d = widened(d_unprojected[place]), t = tanh_c[place], kept = widened(keep[row]);
    float total = d_cell[place] + d * o * (1.0f - t * t);
    if (fabsf(cell[place]) >= (float)clip) total = 0.0f;
    d_sums[first] = rounded(total * j * i * (1.0f - i));
    d_sums[first + cells] = rounded(total * i * (1.0f - j * j));
    d_sums[first + 2 * cells] = rounded(total * kept * before[place] * f * (1.0f - f));
    d_sums[first + 3 * cells] = rounded(d * t * o * (1.0f - o));
    d_before[place] = total * kept * f;
}
"""

Step = Callable[[Tensor, Tensor, Tensor, float | None], tuple[Tensor, ...]]
StepBackward = Callable[[Tensor, Tensor, tuple[Tensor, ...], float | None, Tensor], Tensor]


@cache
def kernels(device: torch.device, dtype: torch.dtype) -> tuple[Step, StepBackward] | None:
    """Return both passes of a step on a device, as `fused_loop` has them; None without kernels."""
    found = compiled(_SOURCE, ("step", "step_backward"), device, dtype)
    return None if found is None else (_forward(found[0]), _backward(found[1]))


def _forward(kernel: Any) -> Step:
    def step(sums: Tensor, c: Tensor, kept: Tensor, bound: float | None) -> tuple[Tensor, ...]:
        cell, tanh_c = torch.empty_like(c), torch.empty_like(c)
        unprojected = torch.empty_like(c, dtype=sums.dtype)
        rows, cells = c.shape
        tensors = [sums, c, kept, sums, cell, tanh_c, unprojected]
        launch(kernel, (cells, rows, 1), [*tensors, cells, limit(bound)])
        return sums, cell, c, kept, tanh_c, unprojected

    return step


def _backward(kernel: Any) -> StepBackward:
    def step_backward(
        d_unprojected: Tensor,
        d_cell: Tensor,
        values: tuple[Tensor, ...],
        bound: float | None,
        d_sums: Tensor,
    ) -> Tensor:
        gates, cell, before, kept, tanh_c, _ = values
        d_before = torch.empty_like(cell)
        rows, cells = cell.shape
        tensors = [d_unprojected, d_cell, gates, cell, before, kept, tanh_c, d_sums, d_before]
        launch(kernel, (cells, rows, 1), [*tensors, cells, limit(bound)])
        return d_before

    return step_backward
