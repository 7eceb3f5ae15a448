"""Chunks of few shapes hold every token once for each direction, in order of time."""

import numpy as np
import pytest

from elmo_model.inference.cuda_graphs.plan import MOST_POSITIONS, ROWS, Plan, Shape


@pytest.mark.parametrize("rows", [1, 3, 40, 512, 700, 1100])
def test_every_token_has_one_place_in_each_direction_in_order_of_time(rows: int) -> None:
    lengths = np.random.default_rng(rows).integers(1, 71, rows).tolist()
    plan, count = Plan.of(lengths), sum(lengths)

    for direction, sign in ((0, 1), (1, -1)):
        assert np.array_equal(plan.tokens[plan.places[direction]], np.arange(count))
        # a later time step has a later place
        ends = np.cumsum(lengths)
        for start, end in zip(ends - lengths, ends, strict=True):
            assert (sign * np.diff(plan.places[direction, start:end]) > 0).all()
    assert (plan.tokens < count).sum() == 2 * count


def test_a_sentence_begins_once_and_stays_in_its_row() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 600).tolist()
    plan = Plan.of(lengths)

    begins = [chunk.begins for chunk in plan.chunks if chunk.begins is not None]
    assert np.array_equal(np.concatenate([np.arange(600)[each] for each in begins]), np.arange(600))

    rows_of: dict[int, set[int]] = {}
    sentence = np.repeat(np.arange(600), lengths)
    for chunk in plan.chunks:
        inside = plan.tokens[chunk.places].reshape(2, chunk.shape.steps, chunk.shape.rows)
        for _, _, row in (there := np.argwhere(inside < len(sentence))):
            assert row < chunk.shape.rows
        for direction, step, row in there:
            rows_of.setdefault(int(sentence[inside[direction, step, row]]), set()).add(int(row))
    assert all(len(rows) == 1 for rows in rows_of.values()) and len(rows_of) == 600


def test_shapes_are_few_and_at_most_a_quarter_is_idle() -> None:
    every = Shape.every()
    for rows in range(1, ROWS[-1] + 1):
        for steps in (1, 2, 3, 4, 5, 11, 12, 15, 16, 17, 400):
            shape = Shape.of(rows, steps)
            assert shape in every and shape.positions <= MOST_POSITIONS
            assert rows <= shape.rows <= 2 * rows - (rows > 1)
            assert shape.steps - steps <= shape.steps / 4
    assert len(every) == len(set(every)) < 45
    assert Shape.of(8, 12).steps == 16 and Shape.of(8, 11).steps == 4


def test_the_largest_shapes_come_first() -> None:
    sizes = [shape.positions for shape in Shape.every()]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == MOST_POSITIONS


def test_no_sentences_give_no_chunks() -> None:
    plan = Plan.of([])
    assert plan.chunks == () and plan.places.shape == (2, 0)
