"""The fit of a batch's fixed time and its time a token."""

from __future__ import annotations

import math

import pytest

from elmo_serve.capacity.batch_time import BatchTime
from elmo_serve.load_test.tally import Batches


def measured(time: BatchTime, *sizes: int, count: int = 10) -> list[Batches]:
    return [Batches(count, count * size, count * time.seconds(size)) for size in sizes]


def test_both_parts_are_found() -> None:
    found = BatchTime.fit(measured(BatchTime(0.02, 3e-4), 30, 400, 1_000))

    assert found.fixed == pytest.approx(0.02)
    assert found.per_token == pytest.approx(3e-4)
    assert found.tokens_per_second(1_000) == pytest.approx(1_000 / 0.32)


def test_batches_of_one_size_have_a_time_a_token() -> None:
    found = BatchTime.fit(measured(BatchTime(0.02, 3e-4), 900, 1_000))

    assert found.fixed == 0
    assert found.seconds(950) == pytest.approx(0.02 + 950 * 3e-4, rel=0.01)


def test_neither_part_is_negative() -> None:
    slower_when_full = BatchTime.fit([Batches(1, 100, 0.01), Batches(1, 1_000, 0.5)])
    faster_when_full = BatchTime.fit([Batches(1, 100, 0.2), Batches(1, 1_000, 0.1)])

    assert slower_when_full.fixed == 0 and slower_when_full.per_token > 0
    assert faster_when_full.per_token == 0 and 0.1 <= faster_when_full.fixed <= 0.2


def test_without_measurements_there_is_no_time() -> None:
    with pytest.raises(ValueError, match="no batches"):
        BatchTime.fit([])
    assert BatchTime(0.0, 0.0).tokens_per_second(5) == math.inf
