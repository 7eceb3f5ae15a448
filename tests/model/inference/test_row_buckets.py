"""Row counts: few of them, never fewer rows than asked for, and only those with the same bits."""

import pytest
import torch
from torch import Tensor

from elmo_model.inference.row_buckets import (
    ANY,
    PRODUCT_COUNTS,
    STEP_COUNTS,
    RowCounts,
    batch_invariant_counts,
    in_parts,
    without_slower,
)


@pytest.mark.parametrize(("counts", "waste"), [(STEP_COUNTS, 4 / 3), (PRODUCT_COUNTS, 1.5)])
def test_counts_are_few_and_none_is_too_small(counts: RowCounts, waste: float) -> None:
    found = {rows: counts.round_up(rows) for rows in range(counts.largest + 1)}

    assert found[0] == 0 and found[1] == 1
    assert all(rows <= rounded <= max(1, waste * rows) for rows, rounded in found.items())
    assert len(counts.counts) <= 30
    assert counts.round_up(2 * counts.largest + 1) == 2 * counts.largest + 1
    assert ANY.round_up(1_000_003) == 1_000_003


def test_counts_with_other_bits_are_found_and_not_used() -> None:
    """A kernel for one row, one for the last of seven rows, one for many."""

    def compute(rows: int) -> list[Tensor]:
        numbers = torch.ones(rows)
        if rows in (1, 7):
            numbers[-1] += 1e-6
        return [numbers, torch.zeros(rows)]

    found = batch_invariant_counts("last rows", lambda: [compute], STEP_COUNTS, (1,))
    assert found.counts == tuple(rows for rows in STEP_COUNTS.counts if rows not in (1, 7))
    assert found.round_up(1) == 2 and found.round_up(7) == 8


def test_a_reference_that_would_make_one_row_cost_as_much_as_many_is_refused() -> None:
    def compute(rows: int) -> list[Tensor]:
        return [torch.full((rows,), float(rows > 60))]

    found = batch_invariant_counts("many rows", lambda: [compute], STEP_COUNTS, (1,))
    assert found.largest == 32 and found.counts[0] == 1


def test_a_number_of_threads_that_changes_bits_is_noticed() -> None:
    def compute(rows: int) -> list[Tensor]:
        return [torch.full((rows,), float(torch.get_num_threads() > 2 and rows > 8))]

    found = batch_invariant_counts("threads", lambda: [compute], STEP_COUNTS, (1, 3, 6))
    assert found.largest == 8


@pytest.mark.parametrize(("seconds_of_four", "left"), [(2.0, (1, 2, 4, 8)), (0.5, (4, 8))])
def test_few_rows_are_filled_up_to_four_where_four_are_faster(
    seconds_of_four: float, left: tuple[int, ...]
) -> None:
    now = [0.0]

    def compute(rows: int) -> None:
        now[0] += seconds_of_four if rows == 4 else 1.0

    def counts() -> tuple[int, ...]:
        key = ("four rows", left)
        every = RowCounts((1, 2, 4, 8))
        return without_slower(key, every, compute, 4, clock=lambda: now[0]).counts

    assert counts() == left
    ended = now[0]
    assert counts() == left and now[0] == ended, "measured once"


def test_parts_have_the_counts_and_give_all_rows() -> None:
    rows: list[int] = []

    def double(part: Tensor) -> Tensor:
        rows.append(len(part))
        return 2 * part

    numbers = torch.arange(23.0).unsqueeze(1)
    assert torch.equal(in_parts(double, numbers, RowCounts((2, 8))), 2 * numbers)
    assert rows == [8, 8, 8]
    assert in_parts(double, numbers[:0], RowCounts((2, 8))).shape == (0, 1)
