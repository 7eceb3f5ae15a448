"""Search finds the vectors with the largest cosines."""

import numpy as np

from elmo_model.neighbours.search import FlatSearch


def test_it_finds_the_vectors_with_the_largest_cosines() -> None:
    source = np.random.default_rng(0)
    matrix = source.standard_normal((500, 16)).astype(np.float16)
    query = source.standard_normal(16).astype(np.float32)

    found, distances = FlatSearch(matrix).nearest(query, 10)

    exact = matrix.astype(np.float64)
    cosines = exact @ query / np.linalg.norm(exact, axis=1) / np.linalg.norm(query)
    np.testing.assert_array_equal(found, np.argsort(-cosines)[:10])
    np.testing.assert_allclose(1 - distances, np.sort(cosines)[::-1][:10], atol=2e-3)


def test_fewer_vectors_than_wanted_are_all_found() -> None:
    search = FlatSearch(np.eye(3, 4, dtype=np.float16))

    found, _ = search.nearest(np.array([0, 1, 0, 0], np.float32), 10)

    assert found[0] == 1
    assert sorted(found) == [0, 1, 2]


def test_no_vectors_have_no_neighbours() -> None:
    found, distances = FlatSearch(np.empty((0, 4), np.float16)).nearest(np.ones(4, np.float32), 3)

    assert found.size == distances.size == 0
