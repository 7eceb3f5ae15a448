"""Row buckets: the few row counts of products, all of which give a row the same bits.

oneDNN compiles a program for each row count, which can cost more than the product, and keeps about
a thousand of them: sentences of all lengths give a time step any number of rows. Libraries also
have other kernels for other row counts, which add in another order: for one row, for the last rows
of a tile, for rows enough for AMX. Which counts these are depends on the library, the processor and
the shape, so they are found by trial when an encoder is built, and then not used.
"""

import sys
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter

import torch
from torch import Tensor

from elmo_model.inference.linear import Linear, linear_of
from elmo_model.inference.precision import Precision
from elmo_model.threads import ParallelDirections

# The reference of a trial is refused when one row would be computed as more rows than this: then
# small batches would cost as much as large ones. A larger number refuses fewer references.
_LEAST_WASTE = 48
# Measurements of two row counts in turn, 30 ms together at the original size.
_PAIRS = 5
# Times as long from which fewer rows count as slower: less is noise.
_SLOWER = 1.1
# The bias of a sample: as small as the rounding of its sums, so that it hides none of it.
_SMALL = 1e-6


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Allowed row counts, ascending; more rows than the largest are split. Empty: any count."""

    counts: tuple[int, ...]

    @property
    def largest(self) -> int:
        """The rows of the largest part."""
        return self.counts[-1] if self.counts else sys.maxsize

    def round_up(self, rows: int) -> int:
        """Return the rows to compute for `rows`: full parts and the next count for the rest."""
        if not self.counts:
            return rows
        whole, rest = divmod(rows, self.largest)
        more = self.counts[bisect_left(self.counts, rest)] if rest else 0
        return whole * self.largest + more

    def up_to(self, largest: int) -> "RowCounts":
        """Return the counts that are at most `largest`."""
        return RowCounts(tuple(rows for rows in self.counts if rows <= largest))


ANY = RowCounts(())
"""For devices that compile no program."""

STEP_COUNTS = RowCounts((*range(1, 9), *range(12, 65, 4), *range(80, 129, 16)))
"""At most a third more rows, for time steps. A larger largest count makes trials longer: they take
0.5 s at the original size."""
PRODUCT_COUNTS = RowCounts((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256))
"""At most half more rows, for words and input products, which can be cut anywhere."""

_DISTINCT = 256
"""Outputs of a trial's matrix that differ; the others repeat them. Random numbers for all of them
take half of a trial at the original size."""

Sample = Callable[[int], Sequence[Tensor]]
"""Map n to what a computation gives for the first n rows of a sample."""

TRIALS: dict[Hashable, tuple[int, ...]] = {}
"""The results of all trials of this process: plain values, which another one may take over."""


def batch_invariant_counts(
    key: Hashable,
    samples: Callable[[], Sequence[Sample]],
    candidates: RowCounts,
    threads: tuple[int, ...],
) -> RowCounts:
    """Return the row counts, of some candidates, that give each row the same bits.

    The bits are those of the largest count in one thread, and a count is kept if it gives them with
    every number of `threads`. Where that leaves too little, smaller references are
    tried; where nothing is left, rows are computed one by one. The result is kept for `key` as long
    as the process; `samples` is called only for a new key.
    """
    place = (key, candidates.counts, threads)
    if place not in TRIALS:
        own = samples()

        def compute(rows: int) -> list[Tensor]:
            return [result for sample in own for result in sample(rows)]

        TRIALS[place] = _trial(compute, candidates, threads).counts
    return RowCounts(TRIALS[place])


def _trial(compute: Sample, candidates: RowCounts, threads: tuple[int, ...]) -> RowCounts:
    left = candidates
    while left.counts:
        (reference,) = ParallelDirections.with_each_count(partial(compute, left.largest), (1,))
        good = set(left.counts)

        def kept(good: set[int] = good, reference: Sequence[Tensor] = reference) -> set[int]:
            return {rows for rows in good if _agree(compute(rows), reference)}

        good.intersection_update(*ParallelDirections.with_each_count(kept, threads))
        if good and min(good) <= _LEAST_WASTE:
            return RowCounts(tuple(sorted(good)))
        left = left.up_to(left.largest // 2)
    return candidates.up_to(1)


def without_slower(
    key: Hashable,
    counts: RowCounts,
    compute: Callable[[int], object],
    least: int,
    clock: Callable[[], float] = perf_counter,
) -> RowCounts:
    """Leave out the counts below `least` rows where these take clearly less time than the smallest.

    All of `counts` give the same bits, so a wrong measurement costs time alone. The result is kept
    as that of `batch_invariant_counts`.
    """
    place = (key, counts.counts, least)
    if place not in TRIALS:
        more = counts.counts[bisect_left(counts.counts, least)]

        def seconds() -> tuple[float, float]:
            start = clock()
            compute(counts.counts[0])
            middle = clock()
            compute(more)
            return middle - start, clock() - middle

        def times() -> list[tuple[float, float]]:
            return [seconds() for _ in range(_PAIRS)]

        (pairs,) = ParallelDirections.with_each_count(times, (1,))
        few, many = map(min, zip(*pairs, strict=True))  # the least disturbed ones
        is_slower = few > _SLOWER * many
        TRIALS[place] = tuple(rows for rows in counts.counts if rows >= more or not is_slower)
    return RowCounts(TRIALS[place])


def _agree(found: Sequence[Tensor], reference: Sequence[Tensor]) -> bool:
    return all(
        torch.equal(one, other[: len(one)]) for one, other in zip(found, reference, strict=True)
    )


def in_parts(compute: Callable[[Tensor], Tensor], inputs: Tensor, counts: RowCounts) -> Tensor:
    """Map (rows, ...) to what `compute` gives for them, called with `counts` of rows alone."""
    rows = len(inputs)
    filled = filled_up(inputs, counts.round_up(rows))
    if len(filled) <= counts.largest:
        return compute(filled)[:rows]
    return torch.cat([compute(part) for part in torch.split(filled, counts.largest)])[:rows]


def filled_up(values: Tensor, rows: int) -> Tensor:
    """Return (n, ...) with zeros appended up to `rows` rows."""
    missing = rows - len(values)
    if missing <= 0:
        return values
    return torch.cat((values, values.new_zeros(missing, *values.shape[1:])))


def ill_conditioned_sample(
    precision: Precision, shape: tuple[int, int], rows: int
) -> tuple[Linear, Tensor]:
    """Return a matrix of `shape` (outputs, inputs) in a precision, and inputs (rows, inputs).

    In every other row the second half of each sum cancels the first one, so that nothing is left
    but the rounding of the partial sums: two orders of adding differ nearly everywhere, also when
    results have 16 bits. The other rows are random, for 8-bit products, whose sums are exact.
    """
    generator = torch.Generator().manual_seed(0)
    half = shape[1] // 2
    order = torch.randperm(half, generator=generator)
    block = torch.randn(min(_DISTINCT, shape[0]), shape[1], generator=generator)
    block[:, half : 2 * half] = block[:, :half][:, order]
    weight = block.repeat(-(-shape[0] // len(block)), 1)[: shape[0]]
    sample = torch.zeros(rows, shape[1])
    sample[:, :half] = torch.randn(rows, half, generator=generator)
    sample[::2, half : 2 * half] = -sample[::2, :half][:, order]
    return linear_of(weight, precision), sample


def counts_of_product(
    precision: Precision,
    shape: tuple[int, int],
    has_bias: bool,
    candidates: RowCounts,
    threads: tuple[int, ...],
) -> RowCounts:
    """Return the row counts with which a matrix of `shape` (outputs, inputs) gives the same bits.

    The product is `Linear.affine`, on a CPU.
    """

    def samples() -> list[Sample]:
        linear, sample = ill_conditioned_sample(precision, shape, candidates.largest)
        bias = torch.full(shape[:1], _SMALL) if has_bias else None
        return [lambda rows: [linear.affine(sample[:rows], bias)]]

    key = ("product", precision, shape, has_bias)
    return batch_invariant_counts(key, samples, candidates, threads)


@cache
def argument_where_simd_differs(function: Callable[[Tensor], Tensor]) -> float:
    """Return an argument where the vector form of a function and its scalar form differ.

    torch computes numbers that fill no vector register one by one, with other last bits: at the end
    of an array and where threads divide it. A sample of this number alone shows each such place.
    Returns 1 where there is no such argument.
    """
    arguments = torch.linspace(-8, 8, 1 << 16)
    one_by_one = torch.stack((arguments, arguments), dim=1)[:, 0]  # strides: no vector form
    differ = torch.nonzero(function(arguments) != function(one_by_one))
    return float(arguments[differ[0, 0]]) if len(differ) else 1.0
