"""Tab-separated tables: columns by name, places of tokens."""

from pathlib import Path

import pytest

from elmo_model.evaluation.score import EvaluationError
from elmo_model.evaluation.tables import place, read_columns
from tests.support.evaluation_sets import written


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "one\ttwo\tthree\r\na\tb\tc\r\nd\te\tf\r\n")

    assert list(read_columns(path, ("three", "one"))) == [["c", "a"], ["f", "d"]]


@pytest.mark.parametrize("index", ["2", "-1", "x", "", "1.0"])
def test_a_place_outside_the_sentence_is_refused(index: str) -> None:
    with pytest.raises(EvaluationError, match=r"^a\.tsv: token .* of a sentence of 2 tokens"):
        place(Path("a.tsv"), index, ["two", "tokens"])


def test_places_count_from_zero() -> None:
    assert place(Path("a.tsv"), "1", ["two", "tokens"]) == 1
