"""Rows are packed by segments: from each sentence start, or whole with carried state."""

import numpy as np

from elmo_model.training.direction import Layout


def test_rows_with_carried_state_are_packed_step_by_step() -> None:
    layout = Layout.of(np.ones((2, 3), dtype=bool), fresh=False)
    assert layout.order.tolist() == [0, 3, 1, 4, 2, 5]
    assert layout.sizes == (2, 2, 2)
    assert layout.before.tolist() == layout.after.tolist() == [0, 1]


def test_segments_are_packed_in_descending_order_of_length() -> None:
    begins = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
    layout = Layout.of(begins, fresh=True)
    # segments by length: row 1 whole, row 2 from 1, row 0 to 1, row 0 from 2, row 2 first cell
    assert layout.sizes == (5, 4, 2, 1)
    assert layout.order.tolist() == [4, 9, 0, 2, 8, 5, 10, 1, 3, 6, 11, 7]
    assert layout.before.tolist() == [3, 3, 0, 3, 2]  # 3: zero state, at a sentence start
    assert layout.after.tolist() == [3, 0, 1]
