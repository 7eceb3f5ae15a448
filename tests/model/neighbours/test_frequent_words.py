"""The most frequent words over all parts."""

from elmo_model.neighbours.part import most_frequent
from elmo_model.neighbours.writer import PartWriter
from tests.support.neighbours import centre_of, made_up


def test_words_are_counted_over_all_parts() -> None:
    first, second = [["a", "b", "c", "c"]], [["d", "b", "d", "d", "c", "c"]]
    centre = centre_of(made_up(first))
    parts = [
        PartWriter(first, centre, {}).finish(),
        PartWriter(second, centre, {"a": 0, "b": 1, "c": 2}).finish(),
    ]

    assert most_frequent(parts).tolist() == [2, 3, 1, 0]
    assert most_frequent(parts, 2).tolist() == [2, 3]
