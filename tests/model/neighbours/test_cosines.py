"""The cosines of pairs by layer."""

import numpy as np
import pytest

from elmo_model.inference.centre import cosines


def test_each_layer_and_the_mean_of_the_layers_have_a_cosine() -> None:
    sides = np.array([[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 1.0]]])

    found = cosines(sides, None)

    assert found["0"] == [0.0] and found["1"] == [1.0]
    assert found["average"] == [pytest.approx(2 * 4 / np.sqrt(1 + 4) / 4)]


def test_the_centre_is_subtracted_and_a_zero_vector_has_0() -> None:
    sides = np.array([[[2.0, 1.0]], [[1.0, 2.0]], [[1.0, 1.0]], [[5.0, 5.0]]])

    found = cosines(sides, np.array([[1.0, 1.0]]))

    assert found["0"] == [0.0, 0.0]
    assert cosines(sides, None)["0"] == [pytest.approx(0.8), pytest.approx(1.0)]
