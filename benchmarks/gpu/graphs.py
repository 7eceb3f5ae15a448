"""Time steps one launch at a time, and in a CUDA graph of eight: is a graph worth its code?

    python -m benchmarks.gpu.graphs [--cell 4096] [--projection 512] [--rows 1 16 64 128 256 512]

One layer in both directions, with random weights and without padding. "graph" runs the directions
on two streams, its input product is inside. Prints microseconds a step of two layers, medians of
five, and the largest difference of the graph's vectors. On a CPU the steps alone are timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

_ROUNDS, _CALLS = 5, 5


@dataclass(slots=True)
class Direction:
    """Weights, input (steps, rows, P), state and output of a direction, which stay in place."""

    inputs: Tensor
    recurrent: Tensor
    projection: Tensor
    bias: Tensor
    x: Tensor
    h: Tensor
    c: Tensor
    out: Tensor

    @classmethod
    def random(
        cls, cell: int, width: int, rows: int, steps: int, dtype: torch.dtype, device: torch.device
    ) -> Direction:
        """Return one whose numbers have a usual size."""

        def weights(*shape: int) -> Tensor:
            return torch.randn(*shape).div(float(shape[-1]) ** 0.5).to(device, dtype)

        return cls(
            weights(4 * cell, width),
            weights(4 * cell, width),
            weights(width, cell),
            torch.zeros(4 * cell, device=device),
            torch.randn(steps, rows, width, device=device),
            torch.zeros(rows, width, device=device),
            torch.zeros(rows, cell, device=device),
            torch.zeros(steps, rows, width, device=device),
        )

    def run(self) -> None:
        """Compute all steps from the state, which becomes the last one."""
        dtype, steps = self.recurrent.dtype, len(self.x)
        gates = functional.linear(self.x.flatten(0, 1).to(dtype), self.inputs).float()
        gates = gates.add_(self.bias).view(steps, len(self.h), -1)
        for step in range(steps):
            product = functional.linear(self.h.to(dtype), self.recurrent)
            i, f, o, j = torch.add(gates[step], product).chunk(4, 1)
            self.c.mul_(f.sigmoid_()).addcmul_(i.sigmoid_(), j.tanh_()).clamp_(-3, 3)
            hidden = self.c.tanh().mul_(o.sigmoid_()).to(dtype)
            self.h.copy_(functional.linear(hidden, self.projection)).clamp_(-3, 3)
            self.out[step].copy_(self.h)


def both(directions: list[Direction], side: torch.cuda.Stream | None = None) -> None:
    """Compute both directions, the second one on a stream of its own if there is one."""
    if side is not None:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        directions[1].run()
    directions[0].run()
    if side is not None:
        torch.cuda.current_stream().wait_stream(side)


def captured(directions: list[Direction]) -> torch.cuda.CUDAGraph:
    """Return the graph of both directions."""
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    start = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    start.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(start):
        for _ in range(3):  # cuBLAS allocates in its first calls, which a graph cannot
            both(directions, side)
    torch.cuda.current_stream().wait_stream(start)
    with torch.cuda.graph(graph):
        both(directions, side)
    return graph


def reset(directions: list[Direction]) -> None:
    """Begin with a state of zeros again."""
    for each in directions:
        each.h.zero_()
        each.c.zero_()


def microseconds(run: Callable[[], object], steps: int, device: torch.device) -> float:
    """Return the median time of a step of two layers."""
    found = []
    for _ in range(1 + _ROUNDS):
        wait(device)
        start = time.perf_counter()
        for _ in range(_CALLS):
            run()
        wait(device)
        found.append((time.perf_counter() - start) / _CALLS / steps * 2e6)
    return statistics.median(found[1:])


def wait(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cell", type=int, default=4096)
    parser.add_argument("--projection", type=int, default=512)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 64, 128, 256, 512])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    device, size = torch.device(options.device), (options.cell, options.projection)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    print("| precision | rows | steps, us | graph, us | times faster | largest difference |")
    print("|---" + "|--:" * 5 + "|")
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            for rows in options.rows:
                directions = [
                    Direction.random(*size, rows, options.steps, dtype, device) for _ in range(2)
                ]
                print(row(directions, rows, options.steps, dtype, device), flush=True)
    return 0


def row(
    directions: list[Direction], rows: int, steps: int, dtype: torch.dtype, device: torch.device
) -> str:
    """Return a line of the table."""
    name = str(dtype).removeprefix("torch.")
    eager = microseconds(lambda: both(directions), steps, device)
    if device.type != "cuda":
        return f"| {name} | {rows} | {eager:.0f} | | | |"
    reset(directions)
    both(directions)
    expected = [each.out.clone() for each in directions]
    graph = captured(directions)
    reset(directions)
    graph.replay()
    pairs = zip(directions, expected, strict=True)
    difference = max(float((each.out - own).abs().max()) for each, own in pairs)
    replay = microseconds(graph.replay, steps, device)
    cells = f"{eager:.0f} | {replay:.0f} | {eager / replay:.1f} | {difference:.1e}"
    return f"| {name} | {rows} | {cells} |"


if __name__ == "__main__":
    sys.exit(main())
