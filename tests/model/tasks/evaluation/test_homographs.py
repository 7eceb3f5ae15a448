"""Word senses: nearest centroid and linear probe."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.tasks.evaluation.score import EvaluationError
from elmo_model.tasks.evaluation.senses import homographs, read_uses
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf
from tests.support.evaluation_sets import uses, written


def test_senses_that_depend_on_a_neighbour_need_a_layer_with_context(
    tmp_path: Path, computed: FeaturesOf
) -> None:
    generator = np.random.default_rng(1)

    def rows(count: int) -> list[tuple[str, str, int, str]]:
        made = []
        for number in range(count):
            sense = ("fish", "tone")[number % 2]
            near = {"fish": "river", "tone": "loud"}[sense]
            filler = " ".join(generator.choice(["a", "the", "of", "in"], size=3))
            made.append(("bass", sense, 1, f"{near} bass {filler}"))
        return made

    train = uses(tmp_path / "train.tsv", *rows(40))
    test = uses(tmp_path / "test.tsv", *rows(20), ("lead", "metal", 0, "lead"))
    centroid, probe = homographs(computed, train, test, None)
    assert centroid.items == probe.items == 21  # a word that training lacks is wrong
    assert probe.layers[0] == pytest.approx(100 * 10 / 21)
    assert min(probe.layers[1:]) == pytest.approx(100 * 20 / 21)
    assert max(centroid.layers[1:]) > 90
    assert centroid.baseline == pytest.approx(100 * 10 / 21)


def test_an_empty_table_is_refused(tmp_path: Path, computed: FeaturesOf) -> None:
    with pytest.raises(EvaluationError, match="holds no use of a word"):
        homographs(computed, uses(tmp_path / "a.tsv"), uses(tmp_path / "b.tsv"), None)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "w\ts\t2\ttwo tokens\n", "a.tsv:2: token_index is '2', expected from 0 to 1"),
        ("a.tsv", "lead\n", "a.tsv:2: has 1 columns, expected 4"),
        ("a.txt", "", "its name ends in .txt, expected .tsv, .csv or .jsonl"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path / name, f"word\tsense\ttoken_index\tsentence\n{text}")
    with pytest.raises(FitError, match=message):
        read_uses(path)
