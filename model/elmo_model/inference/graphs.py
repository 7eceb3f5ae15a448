"""Time steps on a CUDA device: eight of them, of all layers and both directions, are one launch.

A step of four LSTMs is some twenty kernels that take a few microseconds each, while the host needs
about ten to launch one. A CUDA graph holds the kernels of a window of steps for a number of rows,
and the host launches it as a whole. Rows are filled up to that number, and a window to its steps.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.inference.kernels import Step, pointwise
from elmo_model.inference.linear import Linear, TorchLinear
from elmo_model.inference.lstm import InferenceLSTM, InferenceStack
from elmo_model.network.bilm import time_steps

WINDOW = 8
"""Time steps of a graph. More of them compute more for nothing after the end of a sentence."""
ROWS = (8, 16, 32, 64, 128, 256, 512)
"""Rows that have a graph. A batch with more is computed in parts of the last one."""
_PARTS = 4
"""Parts of the projection's sum over the cells (benchmarks/RESULTS.md)."""

Numbers = NDArray[np.int64]
Capture = Callable[[Callable[[], None]], Callable[[], None]]
"""Map a computation on tensors that stay in place to one that repeats it."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A block of time steps of some rows, cut into windows; everything is an index.

    A window of n rows has 2 x WINDOW x n places: forward and backward, step by step. A place of no
    token holds that of another one. Those of all windows lie one behind the other.
    """

    order: Numbers  # (rows,): the row of the batch that each row is, longest first
    sizes: tuple[tuple[int, int], ...]  # of each window the first row and the rows of its graph
    tokens: Numbers  # (places,): the token of the batch at each place
    lengths: Numbers  # of each window the steps of each of its rows
    targets: Numbers  # (2N,): twice the token of each output, and one more for the backward one
    sources: Numbers  # (2N,): the place of that output

    @property
    def rows(self) -> int:
        """The rows of a state, filled up to those of the graphs."""
        return max(first + filled for first, filled in self.sizes)

    @classmethod
    def of(cls, left: Numbers, first: Numbers, last: Numbers, rows: Sequence[int]) -> "Windows":
        """Cut rows with `left` tokens each, whose next ones are the tokens `first` and `last`.

        The forward direction goes up from `first` and the backward one down from `last`.
        """
        order = time_steps(left)[0][: np.count_nonzero(left)]
        sizes, tokens, lengths, targets, sources = [], [], [], [], []
        place = 0
        for begin in range(0, len(order), rows[-1]):
            part = order[begin : begin + rows[-1]]
            for step in range(0, int(left[part[0]]), WINDOW):
                live = part[left[part] > step]
                filled = next(each for each in rows if each >= len(live))
                steps = np.zeros(filled, np.int64)
                steps[: len(live)] = np.minimum(left[live] - step, WINDOW)
                row = np.resize(live, filled)
                at = np.minimum(np.arange(WINDOW)[:, None], np.maximum(steps, 1) - 1)
                token = np.stack((first[row] + step + at, last[row] - step - at))
                kept = np.flatnonzero(np.arange(WINDOW)[:, None] < steps)
                for direction in (0, 1):
                    targets.append(2 * token[direction].ravel()[kept] + direction)
                    sources.append(place + direction * WINDOW * filled + kept)
                sizes.append((begin, filled))
                tokens.append(token.ravel())
                lengths.append(steps)
                place += token.size
        joined = (np.concatenate(each) for each in (tokens, lengths, targets, sources))
        return cls(order, tuple(sizes), *joined)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of both directions, with the weights of `InferenceLSTM`, (2, inputs, outputs)."""

    input: Tensor
    recurrent: Tensor
    projection: Tensor  # (2 x parts, D / parts, P)
    bias: Tensor  # (2, 4D)
    cell_clip: float
    projection_clip: float
    is_residual: bool

    @classmethod
    def of(cls, lstms: Sequence[InferenceLSTM], is_residual: bool) -> "_Layer":
        projection = _joined(lstm.projection for lstm in lstms)  # (2, P, D)
        width, cells = projection.shape[1:]
        parts = _PARTS if cells % (8 * _PARTS) == 0 else 1  # factors at multiples of 16 bytes
        parted = projection.view(2, width, parts, cells // parts).transpose(1, 2).flatten(0, 1)
        return cls(
            _joined(lstm.input for lstm in lstms).transpose(1, 2),
            _joined(lstm.recurrent for lstm in lstms).transpose(1, 2),
            parted.transpose(1, 2),
            torch.stack([lstm.bias for lstm in lstms]),
            _limit(lstms[0].cell_clip),
            _limit(lstms[0].projection_clip),
            is_residual,
        )


def _limit(clip: float | None) -> float:
    return float("inf") if clip is None else clip


def _joined(linears: Iterable[Linear | None]) -> Tensor:
    """Stack the weights of two products, which become parts of the stack."""
    both = [linear for linear in linears if isinstance(linear, TorchLinear)]
    stacked = torch.stack([linear.weight for linear in both])
    for linear, weight in zip(both, stacked, strict=True):
        linear.weight = weight
    return stacked


@dataclass(frozen=True, slots=True)
class _Graph:
    """The window of a number of rows, and the tensors that it reads and writes in their place."""

    inputs: Tensor  # (2 x WINDOW x rows, P)
    lengths: Tensor  # (rows,)
    state: Tensor  # (L, 2, rows, P + D)
    outputs: Tensor  # (L, 2, WINDOW, rows, P)
    replay: Callable[[], None]


class StepGraphs:
    """The graphs of a biLM's stacks, each made at its first use.

    They share their memory, so one thread at a time launches a window, on the stream that all
    threads use by default.
    """

    def __init__(
        self,
        stacks: Sequence[InferenceStack],
        capture: Capture | None = None,
        rows: Sequence[int] = ROWS,
    ) -> None:
        """Join the weights of both directions. `capture` is for a device without graphs."""
        pairs = zip(*(stack.layers for stack in stacks), strict=True)
        self._layers = [_Layer.of(p, stacks[0].skip and n > 0) for n, p in enumerate(pairs)]
        self.rows = tuple(rows)
        self._width = self._layers[0].recurrent.shape[1]
        self._cells = self._layers[0].recurrent.shape[2] // 4
        self._device = self._layers[0].bias.device
        self._capture = capture or _Capture(self._device)
        self._graphs: dict[int, _Graph] = {}
        self._lock = threading.Lock()

    @staticmethod
    def fit(stacks: Sequence[InferenceStack]) -> bool:
        """Tell whether these stacks have graphs: on a CUDA device, with projections."""
        layers = [layer for stack in stacks for layer in stack.layers]
        return all(
            isinstance(each, TorchLinear) and each.weight.device.type == "cuda"
            for layer in layers
            for each in (layer.input, layer.recurrent, layer.projection)
        )

    def run(
        self, windows: Windows, vectors: Tensor, ids: Tensor, lengths: Tensor, state: Tensor
    ) -> Generator[None, None, Tensor]:
        """Compute the windows of a block, with a stop after each; return (L, places, P).

        `ids` (places,) are the rows of `vectors` (words, P) to read, and `lengths` those of
        `windows`, on the device. `state` (L, 2, rows, P + D), filled up to the rows of the first
        window of each part, becomes the state after the block.
        """
        outputs = vectors.new_empty(len(self._layers), len(ids), self._width)
        place = begin = 0
        for first, rows in windows.sizes:
            end = place + 2 * WINDOW * rows
            own = state[:, :, first : first + rows]
            with self._lock:
                graph = self._graph(rows)
                torch.index_select(vectors, 0, ids[place:end], out=graph.inputs)
                graph.lengths.copy_(lengths[begin : begin + rows])
                graph.state.copy_(own)
                graph.replay()
                own.copy_(graph.state)
                outputs[:, place:end].copy_(graph.outputs.flatten(1, 3))
            place, begin = end, begin + rows
            yield
        return outputs

    def _graph(self, rows: int) -> _Graph:
        if rows not in self._graphs:
            layers, bias = len(self._layers), self._layers[0].bias
            graph = _Graph(
                bias.new_zeros(2 * WINDOW * rows, self._width),
                torch.zeros(rows, dtype=torch.int64, device=self._device),
                bias.new_zeros(layers, 2, rows, self._width + self._cells),
                bias.new_zeros(layers, 2, WINDOW, rows, self._width),
                lambda: None,
            )
            replay = self._capture(lambda: self._compute(graph))
            self._graphs[rows] = replace(graph, replay=replay)
        return self._graphs[rows]

    def _compute(self, graph: _Graph) -> None:
        """Compute a window with torch's operations and two kernels: what a graph holds."""
        rows = len(graph.lengths)
        inputs = graph.inputs.view(2, WINDOW * rows, -1)
        for layer, state, outputs in zip(self._layers, graph.state, graph.outputs, strict=True):
            dtype = layer.recurrent.dtype
            parts, part = layer.projection.shape[:2]
            h = state[..., : self._width]
            window = Step(
                _product(inputs.to(dtype), layer.input).view(2, WINDOW, rows, -1),
                layer.bias,
                graph.lengths,
                state,
                torch.empty_like(h, dtype=dtype, memory_format=torch.contiguous_format).copy_(h),
                h.new_empty(parts, rows, part, dtype=dtype),
                outputs,
                layer.cell_clip,
                layer.projection_clip,
            )
            to_cell, to_hidden = pointwise(self._device, dtype)
            for step in range(WINDOW):
                to_cell(window, _product(window.h, layer.recurrent), step)
                to_hidden(window, _product(window.half, layer.projection), step)
            if layer.is_residual:
                outputs.add_(inputs.view_as(outputs))
            inputs = outputs.flatten(1, 2)


def _product(inputs: Tensor, weight: Tensor) -> Tensor:
    """Map (n, rows, inputs) and (n, inputs, outputs) to (n, rows, outputs) in float32."""
    if inputs.dtype is torch.float32:
        return torch.bmm(inputs, weight)
    return torch.bmm(inputs, weight, out_dtype=torch.float32)


class _Capture:
    """Captures CUDA graphs, which share the memory of what is between their inputs and outputs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        with torch.cuda.device(self._device):
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                compute()  # libraries allocate in their first calls, which a graph cannot
            torch.cuda.current_stream().wait_stream(stream)
            # other threads go on: one may register memory or allocate
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                compute()
        return graph.replay
