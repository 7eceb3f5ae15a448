"""Time steps on a CUDA device: eight or four, of all layers and both directions, are one launch.

A step of four LSTMs is some twenty kernels that take a few microseconds each, while the host needs
about ten to launch one. A CUDA graph holds the kernels of a window of steps for a number of rows,
and the host launches it as a whole. Rows are filled up to that number, and a window to its steps.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import torch
from torch import Tensor

from elmo_model.inference.cuda_kernels import WindowTensors, limit, pointwise
from elmo_model.inference.graph_capture import Capture, GraphCapture
from elmo_model.inference.linear import Linear, TorchLinear
from elmo_model.inference.lstm import InferenceLSTM, InferenceStack
from elmo_model.network.bilm import Numbers

WINDOW = 8
"""Time steps of a graph. More of them compute more for nothing after the end of a sentence."""
TAIL = 4
"""Time steps of a graph for the last window of a block, where it has no more tokens left."""
ROWS = (8, 16, 32, 64, 128, 256, 512)
"""Rows that have a graph. A batch with more is computed in parts of the last one."""
_PARTS = 4
"""Parts of the projection's sum over the cells (benchmarks/RESULTS.md)."""

ADDS_PRODUCTS = hasattr(torch.ops.aten.baddbmm, "dtype_out")
"""Whether torch adds a product of 16-bit factors to float32 gates in place, so that the kernel of
the cell reads one tensor instead of two."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Some rows of a block of time steps, cut into windows; everything is an index.

    A window of n rows has 2 x steps x n places: forward and backward, step by step. It has WINDOW
    steps, or TAIL at the end. A place after the last token of a row holds that token again, and one
    of no row the first token of all. Those of all windows lie one behind the other.
    """

    rows: Numbers  # the rows of the batch, longest first
    left: Numbers  # tokens left in each row, padded with zeros to the rows of the largest graph
    sizes: tuple[tuple[int, int, int, int], ...]  # first step, rows; rows and steps of the graph
    targets: Numbers  # (places,): twice the token of each place, and one more for the backward one

    @classmethod
    def of(
        cls, left: Numbers, first: Numbers, last: Numbers, graphs: Sequence[int]
    ) -> Iterator["Windows"]:
        """Cut rows with `left` tokens each, whose next ones are the tokens `first` and `last`.

        The forward direction goes up from `first` and the backward one down from `last`. `graphs`
        are the rows of all graphs; rows beyond the largest are in windows of their own.
        """
        order = np.argsort(-left, kind="stable")[: np.count_nonzero(left)]
        for part in np.split(order, range(graphs[-1], len(order), graphs[-1])):
            own, starts = left[part], np.arange(0, left[part].max(initial=0), WINDOW)
            at = np.minimum(np.arange(len(starts) * WINDOW)[:, None], own - 1)
            both = np.stack((2 * (first[part] + at), 2 * (last[part] - at) + 1))
            sizes, targets = [], []
            for step, live in zip(starts.tolist(), np.searchsorted(-own, -starts), strict=True):
                filled = next(rows for rows in graphs if rows >= live)
                steps = TAIL if own[0] - step <= TAIL else WINDOW
                target = np.zeros((2, steps, filled), np.int64)
                target[:, :, :live] = both[:, step : step + steps, :live]
                targets.append(target.ravel())
                sizes.append((step, int(live), filled, steps))
            padded = np.concatenate((own, np.zeros(graphs[-1] - len(part), np.int64)))
            yield cls(part, padded, tuple(sizes), np.concatenate(targets))


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
            limit(lstms[0].cell_clip),
            limit(lstms[0].projection_clip),
            is_residual,
        )


def _joined(linears: Iterable[Linear | None]) -> Tensor:
    """Stack the weights of two products, which become parts of the stack."""
    both = [linear for linear in linears if isinstance(linear, TorchLinear)]
    stacked = torch.stack([linear.weight for linear in both])
    for linear, weight in zip(both, stacked, strict=True):
        linear.weight = weight
    return stacked


@dataclass(frozen=True, slots=True)
class _Graph:
    """A window of some rows and steps, and the tensor that it reads and writes in its place."""

    outputs: Tensor  # (L + 1, 2, steps, rows, P): the inputs, and then the output of each layer
    inputs: Tensor  # (2 x steps x rows, P), in the same memory
    replay: Callable[[], None]


class StepGraphs:
    """The graphs of a biLM's stacks, each made when its rows and steps first occur.

    They share their memory, so one thread at a time launches a window. Where that thread has
    another current stream than the one before, its stream waits for the other.
    """

    def __init__(
        self,
        stacks: Sequence[InferenceStack],
        capture: Capture | None = None,
        rows: Sequence[int] = ROWS,
        current_stream: Callable[[], Any] | None = None,
        *,
        adds_products: bool = ADDS_PRODUCTS,
    ) -> None:
        """Join the weights of both directions.

        `capture` and `current_stream` are for a device without graphs and streams.
        """
        self._recurrent = _added_product if adds_products else _apart_product
        pairs = zip(*(stack.layers for stack in stacks), strict=True)
        self._layers = [_Layer.of(p, stacks[0].skip and n > 0) for n, p in enumerate(pairs)]
        self.rows = tuple(rows)
        self._width = self._layers[0].recurrent.shape[1]
        self._cells = self._layers[0].recurrent.shape[2] // 4
        self._device = self._layers[0].bias.device
        self._capture = capture or GraphCapture(self._device)
        self._graphs: dict[tuple[int, int], _Graph] = {}  # by rows and steps
        # Static inputs of all graphs: the state (L, rows, 2, P + D) and the remaining steps (rows,)
        # of the batch that ran last.
        shape = len(self._layers), rows[-1], 2, self._width + self._cells
        self._state = self._layers[0].bias.new_zeros(shape)
        self._left = torch.zeros(rows[-1], dtype=torch.int64, device=self._device)
        # the state of that batch, which may be gone, and its rows
        self._carried: tuple[ReferenceType[Tensor], Tensor] | None = None
        self._lock = threading.Lock()
        self._current_stream = current_stream or _current_stream_of(self._device)
        self._last_stream = self._current_stream()  # which has launched what is in place

    @staticmethod
    def fit(stacks: Sequence[InferenceStack]) -> bool:
        """Tell whether these stacks have graphs: on a CUDA device, with projections, in float32.

        The kernels read biases and state as float32; a network that was made `half()` has others.
        """
        layers = [layer for stack in stacks for layer in stack.layers]
        return all(
            isinstance(each, TorchLinear) and each.weight.device.type == "cuda"
            for layer in layers
            for each in (layer.input, layer.recurrent, layer.projection)
        ) and all(layer.bias.dtype is torch.float32 for layer in layers)

    def run(
        self,
        windows: Windows,
        vectors: Tensor,
        index: Numbers,
        state: Tensor,
        layers: Tensor,
        *,
        at_once: bool,
    ) -> Iterator[None]:
        """Compute the windows of a block, with a stop after each, or `at_once`.

        `index` (N,) is the row of each token in `vectors` (words, P). The outputs are written to
        `layers` (L + 1, N, 2P), and `state` (L, sentences, 2, P + D) becomes that after the block.
        """
        rows, left, ids, targets = uploaded(
            self._device, windows.rows, windows.left, index[windows.targets // 2], windows.targets
        )
        halves = layers.view(len(layers), -1, self._width)  # of each token forward and backward
        places = [2 * steps * filled for *_, filled, steps in windows.sizes]
        parts = torch.split(ids, places), torch.split(targets, places)
        each = zip(windows.sizes, *parts, strict=True)
        while together := list(islice(each, None if at_once else 1)):
            with self._lock:
                self._wait_for_last_stream()
                for (step, live, filled, steps), known, target in together:
                    graph = self._graph(filled, steps)
                    if self._carried is None or self._carried[1] is not rows:
                        self._put_back()
                        torch.index_select(state, 1, rows, out=self._state[:, : len(rows)])
                        torch.sub(left, step, out=self._left)
                        self._carried = ref(state), rows
                    torch.index_select(vectors, 0, known, out=graph.inputs)
                    graph.replay()
                    own = target.view(2, steps, filled)[:, :, :live]
                    halves[:, own] = graph.outputs[:, :, :, :live]
            yield
        with self._lock:
            self._wait_for_last_stream()
            self._put_back()

    def _wait_for_last_stream(self) -> None:
        """Order this thread's operations after those of the thread that had the lock before."""
        if (current := self._current_stream()) != self._last_stream:
            current.wait_stream(self._last_stream)
            self._last_stream = current

    def _put_back(self) -> None:
        """Write the state in place to that of its batch."""
        if self._carried is not None:
            owned, rows = self._carried
            if (state := owned()) is not None:
                state.index_copy_(1, rows, self._state[:, : len(rows)])
            self._carried = None

    def _graph(self, rows: int, steps: int) -> _Graph:
        if (rows, steps) not in self._graphs:
            self._put_back()  # a capture computes, too
            shape = len(self._layers) + 1, 2, steps, rows, self._width
            outputs = self._state.new_zeros(shape)
            replay = self._capture(lambda: self._compute(outputs))
            self._graphs[rows, steps] = _Graph(outputs, outputs[0].flatten(0, 2), replay)
        return self._graphs[rows, steps]

    def _compute(self, outputs: Tensor) -> None:
        """Compute a window with torch's operations and two kernels: what a graph holds."""
        steps, rows = outputs.shape[2:4]
        left = self._left[:rows]
        for number, (layer, whole) in enumerate(zip(self._layers, self._state, strict=True)):
            dtype, state = layer.recurrent.dtype, whole[:rows]
            inputs, output = outputs[number], outputs[number + 1]
            parts, part = layer.projection.shape[:2]
            h = state[..., : self._width].transpose(0, 1)  # (2, rows, P)
            window = WindowTensors(
                _product(inputs.flatten(1, 2).to(dtype), layer.input).view(2, steps, rows, -1),
                layer.bias,
                left,
                state,
                torch.empty_like(h, dtype=dtype, memory_format=torch.contiguous_format).copy_(h),
                h.new_empty(parts, rows, part, dtype=dtype),
                output,
                layer.cell_clip,
                layer.projection_clip,
            )
            to_cell, to_hidden = pointwise(self._device, dtype)
            for step in range(steps):
                to_cell(window, self._recurrent(window, layer.recurrent, step), step)
                to_hidden(window, _product(window.half, layer.projection), step)
            if layer.is_residual:
                output.add_(inputs)
        left.sub_(steps)


def _current_stream_of(device: torch.device) -> Callable[[], Any]:
    """Return the function that gives the thread's stream; None on a device without streams."""
    if device.type != "cuda":
        return lambda: None
    return partial(torch.cuda.current_stream, device)


def _added_product(window: WindowTensors, weight: Tensor, step: int) -> None:
    """Add the recurrent product of a time step to its gates."""
    gates = window.gates[:, step]  # one object for both: torch would copy another one
    if weight.dtype is torch.float32:
        torch.baddbmm(gates, window.h, weight, out=gates)
    else:
        torch.baddbmm(gates, window.h, weight, out_dtype=torch.float32, out=gates)


def _apart_product(window: WindowTensors, weight: Tensor, step: int) -> Tensor:
    """Return the recurrent product (2, rows, 4D) of a time step."""
    return _product(window.h, weight)


def _product(inputs: Tensor, weight: Tensor) -> Tensor:
    """Map (n, rows, inputs) and (n, inputs, outputs) to (n, rows, outputs) in float32."""
    if inputs.dtype is torch.float32:
        return torch.bmm(inputs, weight)
    return torch.bmm(inputs, weight, out_dtype=torch.float32)


def uploaded(device: torch.device, *arrays: Numbers) -> tuple[Tensor, ...]:
    """Return index arrays on a device, by one copy that waits for nothing."""
    joined = torch.from_numpy(np.concatenate(arrays))
    if device.type == "cuda":
        joined = joined.pin_memory()
    return torch.split(joined.to(device, non_blocking=True), [len(array) for array in arrays])
