"""The projected LSTM for inference: fewer passes over the gates, faster products, its loop."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn

from elmo_model.inference.linear import Linear, linear_of
from elmo_model.inference.precision import PRECISION_FORMATS, Precision
from elmo_model.inference.row_buckets import (
    ANY,
    PRODUCT_COUNTS,
    STEP_COUNTS,
    RowCounts,
    Sample,
    argument_where_simd_differs,
    batch_invariant_counts,
    counts_of_product,
    filled_up,
    ill_conditioned_sample,
    in_parts,
    without_slower,
)
from elmo_model.network.bilm import Stack
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.threads import ParallelDirections

Stepwise = Generator[None, None, tuple[Tensor, Tensor, Tensor]]
"""A computation that stops after each time step; it returns packed outputs and the state after."""
InputGates = Callable[[Tensor], Tensor]
"""Map inputs (positions, P) to their share of the gates (positions, 4D)."""
Step = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Map gates (rows, 4D), h (rows, P) and c (rows, D) of one time step to the next h and c."""

# Recurrent weights (numbers) beyond which the weights of one time step have left the processor's
# caches before the next step: 16 MiB in float32 (benchmarks/RESULTS.md).
_NEAR = 4 * 1024**2
# Rows for which oneDNN may read float32 weights from memory faster than for fewer: 19 GB a second
# and core, against 15 for one row and 13 for two, on an AMD EPYC (Zen 4); on an Intel Xeon
# (Sapphire Rapids) one row is faster. Weights with fewer bits, or in a cache, gain nothing from it.
_LEAST_FAR = 4
_ONE_STEP = 0  # a block of one step


class InferenceLSTM:
    """Computes what a trained `ProjectedLSTM` computes, up to rounding.

    A tanh costs a CPU as much as six logistic functions, and tanh(x) = 2 s(2x) - 1. So the
    candidate's weights are doubled, all four gates are one logistic function in place, the cell is
    kept doubled, and the last factor 2 is in the projection's weights. Doubling rounds nothing.
    The gates are reordered to input, forget, output, candidate.

    On a CPU a row has the same bits in any company: `step_rows` and `input_rows` are the row counts
    of time steps and of input products that give them.
    """

    def __init__(
        self, trained: ProjectedLSTM, precision: Precision, directions: ParallelDirections
    ) -> None:
        recurrent = trained.recurrent.weight.detach()
        self.input: Linear = linear_of(_reordered(trained.input.weight.detach()), precision)
        self.recurrent: Linear = linear_of(_reordered(recurrent), precision)
        self.bias = _reordered(trained.run_time_bias().detach())  # (4D,)
        self.projection: Linear | None = None
        if not isinstance(trained.projection, nn.Identity):
            self.projection = linear_of(2 * trained.projection.weight.detach(), precision)
        self.cell_clip = trained.cell_clip
        self.projection_clip = trained.projection_clip
        self.block = PRECISION_FORMATS[precision].block
        self.step_rows = self.input_rows = ANY
        if self.bias.device.type == "cpu":
            shape = (len(recurrent), recurrent.shape[1])
            self.input_rows = counts_of_product(
                precision, shape, True, PRODUCT_COUNTS, directions.counts
            )
            self.step_rows = self._counts_of_steps(shape, precision, directions)

    def project(self, tokens: Tensor) -> Tensor:
        """Map token vectors (m, P) to their input products (m, 4D)."""
        return in_parts(partial(self.input.affine, bias=self.bias), tokens, self.input_rows)

    def run(
        self,
        inputs: Tensor,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        gates: InputGates | None = None,
    ) -> Stepwise:
        """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

        As `ProjectedLSTM.forward`. With `gates` the inputs are ids (positions,), which it maps to
        their input products, step by step: what it gathers is still in the caches when the step
        reads it.
        """
        packed, last_h, last_c = yield from loop(
            inputs,
            sizes,
            h,
            2.0 * c,
            input_gates=self.project if gates is None else gates,
            step=self._step,
            block=self.block if gates is None else _ONE_STEP,
            counts=self.step_rows,
        )
        return packed, last_h, last_c.mul_(0.5)

    def _step(self, gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Map input products (rows, 4D), h (rows, P) and 2c (rows, D) to the next h and 2c."""
        i, f, o, j = self.recurrent.addmm(gates, h).sigmoid_().chunk(4, dim=1)
        # The new cell overwrites the forget gates, which nothing else reads: no new memory.
        c = f.mul_(c).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c.clamp_(-2 * self.cell_clip, 2 * self.cell_clip)
        half = c.sigmoid().sub_(0.5).mul_(o)
        h = half.mul_(2.0) if self.projection is None else self.projection.linear(half)
        if self.projection_clip is not None:
            h.clamp_(-self.projection_clip, self.projection_clip)
        return h, c

    def _counts_of_steps(
        self, shape: tuple[int, int], precision: Precision, directions: ParallelDirections
    ) -> RowCounts:
        """Return the row counts with which a time step gives the same bits, by trial.

        `shape` (4D, P) is that of the recurrent weights.
        """
        (gates, width), is_projected = shape, self.projection is not None

        def samples() -> list[Sample]:
            recurrent, h = ill_conditioned_sample(precision, shape, STEP_COUNTS.largest)
            # of the type of input products, and as small as the rounding of the sums
            addend = recurrent.with_bias(torch.zeros_like(h), 1e-6 * self.bias)
            steps: list[Sample] = [
                partial(_logistic, gates),
                lambda rows: [recurrent.addmm(addend[:rows], h[:rows])],
            ]
            if is_projected:
                linear, cell = ill_conditioned_sample(
                    precision, (width, gates // 4), STEP_COUNTS.largest
                )
                steps.append(lambda rows: [linear.linear(cell[:rows])])
            return steps

        def read(rows: int) -> None:
            addend, h = torch.zeros(rows, gates), torch.zeros(rows, width)
            for linear in (self.recurrent, self.input):  # in turn, so that neither stays in a cache
                linear.addmm(addend, h)

        key = ("step", precision, shape, is_projected)
        counts = batch_invariant_counts(key, samples, STEP_COUNTS, directions.step_counts)
        is_far = precision == "float32" and gates * width > _NEAR
        if is_far and counts.largest >= _LEAST_FAR:
            counts = without_slower(("far", *key), counts, read, _LEAST_FAR)
        return counts


def _logistic(gates: int, rows: int) -> list[Tensor]:
    """Return the logistic function of (rows, 4D) gates and of a chunk of them, as a step has it."""
    values = torch.full((rows, gates), argument_where_simd_differs(torch.sigmoid))
    return [values.chunk(4, dim=1)[1].sigmoid(), values.sigmoid_()]


class InferenceStack:
    """The L layers of one direction of a trained biLM, in a precision."""

    def __init__(
        self, trained: Stack, precision: Precision, directions: ParallelDirections
    ) -> None:
        lstms = (layer for layer in trained.layers if isinstance(layer, ProjectedLSTM))
        self.layers = tuple(InferenceLSTM(lstm, precision, directions) for lstm in lstms)
        self.skip = trained.skip

    def run(
        self,
        tokens: Tensor,
        sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        gates: InputGates | None = None,
    ) -> Generator[None, None, tuple[list[Tensor], Tensor, Tensor]]:
        """Map packed (positions, P) to the L layers' packed outputs and the state after.

        As `network.bilm.Stack.forward`; it stops after each time step of each layer. With `gates`,
        which gives the input products of the first layer, `tokens` are ids (positions,).
        """
        outputs, last_h, last_c = [tokens], [], []
        for number, layer in enumerate(self.layers):
            inputs, known = outputs[-1], None if number else gates
            output, after_h, after_c = yield from layer.run(
                inputs, sizes, h[number], c[number], known
            )
            # the residual, from the second layer on; the carried state is without it
            outputs.append(output + inputs if self.skip and number else output)
            last_h.append(after_h)
            last_c.append(after_c)
        return outputs[1:], torch.stack(last_h), torch.stack(last_c)


def loop(
    inputs: Tensor,
    sizes: Sequence[int],
    h: Tensor,
    c: Tensor,
    *,
    input_gates: InputGates,
    step: Step,
    block: int,
    counts: RowCounts,
) -> Stepwise:
    """Map packed (positions, P) to packed (positions, P) and the state after each row's end.

    As `ProjectedLSTM.forward`, with a stop after each step; `step` gets `counts` of rows alone.
    The surplus rows hold the inputs of later steps or zeros, and their results are discarded.
    """
    outputs, ended = [], []
    live = len(h)
    computed = {rows: counts.round_up(rows) for rows in {live, *sizes}}
    used = computed[live]
    h, c = filled_up(h, used), filled_up(c, used)
    starts = accumulate(sizes, initial=0)
    steps = zip(starts, (computed[rows] for rows in sizes), strict=False)
    for rows, gates in zip(sizes, _gates(inputs, steps, input_gates, block), strict=True):
        if rows < live:
            ended.append((h[rows:live], c[rows:live].clone()))  # a view would keep its gates
            live = rows
            if computed[rows] < used:
                used = computed[rows]
                h, c = h[:used], c[:used]
        h, c = step(gates, h, c) if used <= counts.largest else _in_parts(step, gates, h, c, counts)
        outputs.append(h if rows == used else h[:rows])
        yield
    ended.append((h[:live], c[:live]))
    last_h, last_c = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs) if outputs else inputs
    return packed, torch.cat(last_h), torch.cat(last_c)


def _in_parts(
    step: Step, gates: Tensor, h: Tensor, c: Tensor, counts: RowCounts
) -> tuple[Tensor, Tensor]:
    """Compute one time step that has more rows than the largest of `counts`, in parts."""
    parts = zip(*(torch.split(each, counts.largest) for each in (gates, h, c)), strict=True)
    next_h, next_c = zip(*(step(*part) for part in parts), strict=True)
    return torch.cat(next_h), torch.cat(next_c)


def _gates(
    inputs: Tensor, steps: Iterable[tuple[int, int]], compute: InputGates, block: int
) -> Iterator[Tensor]:
    """Yield the input products of time steps, which have a first position and rows.

    They are computed for `block` positions at once. A block ends anywhere, also within a step, so
    that it has the rows of a fast product; the products of such a step are joined from two blocks.
    """
    before, gates = inputs, inputs  # from position `begin` to `first`, and from there to `end`
    begin, first, end = 0, 0, 0

    def between(position: int, last: int) -> Tensor:
        if position >= first:
            return gates[position - first : last - first]
        # a step's surplus rows reach beyond it: this one may end before those of the last block
        return torch.cat((before[position - begin : last - begin], gates[: max(0, last - first)]))

    for position, rows in steps:
        last = position + rows
        if block == _ONE_STEP:
            yield compute(filled_up(inputs[position:last], rows))
            continue
        if last > end:
            before, begin = between(position, end), position
            gates = compute(filled_up(inputs[end : max(last, end + block)], last - end))
            first, end = end, end + len(gates)
        yield between(position, last)


def _reordered(gates: Tensor) -> Tensor:
    """Map rows of input, candidate, forget, output to input, forget, output, 2 x candidate."""
    i, j, f, o = gates.chunk(4)
    return torch.cat((i, f, o, 2 * j))
