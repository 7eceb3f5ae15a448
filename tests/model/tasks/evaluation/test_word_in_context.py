"""Words in context: the threshold on the cosine, and its score."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.tasks.evaluation.word_in_context import best_threshold, read_pairs, word_in_context
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf
from tests.support.evaluation_sets import pairs, uses, written


def test_the_threshold_separates_most_pairs() -> None:
    cosines = np.array([0.9, 0.1, 0.8, 0.3, 0.2, 0.25])
    same = np.array([True, False, True, False, True, False])
    bound = best_threshold(cosines, same)
    assert 0.3 < bound < 0.8
    assert best_threshold(cosines, np.ones(6, dtype=bool)) == -np.inf
    assert best_threshold(cosines, np.zeros(6, dtype=bool)) == np.inf
    # No threshold separates equal cosines.
    bound = best_threshold(np.array([0.5, 0.5, 0.5]), np.array([True, False, False]))
    assert bound == np.inf


def test_a_word_with_other_neighbours_needs_a_layer_with_context(
    tmp_path: Path, computed: FeaturesOf
) -> None:
    same = ("T", 1, 1, "loud bass a", "loud bass a")
    other = ("F", 1, 1, "river bass a", "loud bass a")
    path = pairs(tmp_path / "wic.tsv", *[same, same, other, other] * 5)
    score = word_in_context(computed, path, None)
    assert score.items == 20 and score.baseline == 50
    assert score.layers[0] <= 50
    assert max(score.layers[1:]) == 100
    assert word_in_context(computed, path, 4).items == 4


def test_fewer_than_two_pairs_are_refused(tmp_path: Path, computed: FeaturesOf) -> None:
    with pytest.raises(FitError, match="expected at least 2 pairs, found 0"):
        word_in_context(computed, pairs(tmp_path / "empty.tsv"), None)


def test_wrong_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(FitError, match=r"has the columns 'word', 'sense', .*expected sentence1 or"):
        read_pairs(uses(tmp_path / "uses.tsv", ("w", "s", 0, "w")))
    with pytest.raises(FitError, match=r"label\.tsv:3: label is 'yes', expected T or F"):
        read_pairs(pairs(tmp_path / "label.tsv", ("T", 0, 0, "a", "a"), ("yes", 0, 0, "a", "a")))
    with pytest.raises(FitError, match="a pair has no index1 or no index2"):
        read_pairs(written(tmp_path / "a.tsv", "label\tsentence1\tsentence2\nT\ta\tb\n"))
