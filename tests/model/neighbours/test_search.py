"""Search: exact, and by a graph that finds nearly all true neighbours."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.neighbours.search import FlatSearch, GraphSearch, build, rounded
from elmo_model.neighbours.text import IndexFolderError
from tests.support.full_disk import full_disk


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


SOURCE = np.random.default_rng(0)
VECTORS = (SOURCE.standard_normal((2_000, 32)) * SOURCE.uniform(0.1, 9, (2_000, 1))).astype(
    np.float16
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> GraphSearch:
    path = tmp_path_factory.mktemp("graph") / "1.usearch"
    build(VECTORS, path)
    return GraphSearch.open(path)


def test_the_ten_nearest_are_among_200_candidates(graph: GraphSearch) -> None:
    exact = VECTORS.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    found = 0
    for query in SOURCE.standard_normal((20, 32)).astype(np.float32):
        true = np.argsort(-(exact @ query))[:10]
        candidates, distances = graph.nearest(query, 200)
        found += len(set(true) & set(candidates))
        assert (np.diff(distances) >= 0).all()
    assert found >= 195


def test_the_same_vectors_give_the_same_file(tmp_path: Path) -> None:
    for name in ("first", "second"):
        build(VECTORS, tmp_path / name)

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_each_vector_uses_all_of_int8() -> None:
    vectors = np.array([[1, -2, 0.5], [0, 0, 0], [1e-3, 1e-3, 0]], np.float32)

    assert rounded(vectors).tolist() == [[64, -127, 32], [0, 0, 0], [127, 127, 0]]


@pytest.mark.parametrize("size", [0, 100, 5_000])
def test_a_torn_file_is_refused(tmp_path: Path, size: int) -> None:
    build(VECTORS[:100], tmp_path / "graph")
    torn = tmp_path / "torn"
    torn.write_bytes((tmp_path / "graph").read_bytes()[:size])

    with pytest.raises(IndexFolderError, match="is no graph"):
        GraphSearch.open(torn)


def test_a_full_disk_is_an_os_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "1.usearch"

    with full_disk(50_000), pytest.raises(OSError, match="cannot be written") as caught:
        build(VECTORS, path)

    assert caught.value.filename == str(path)
