"""Word senses: nearest centroid and linear probe."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints import load
from elmo_model.evaluation.homographs import homographs, read_uses
from elmo_model.evaluation.score import EvaluationError
from tests.support.evaluation_sets import uses, written


def test_senses_that_depend_on_a_neighbour_need_a_layer_with_context(
    tmp_path: Path, model: Path
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
    centroid, probe = homographs(load(model), train, test, None)
    assert centroid.items == probe.items == 21  # a word that training lacks is wrong
    assert probe.layers[0] == pytest.approx(100 * 10 / 21)
    assert min(probe.layers[1:]) == pytest.approx(100 * 20 / 21)
    assert max(centroid.layers[1:]) > 90
    assert centroid.baseline == pytest.approx(100 * 10 / 21)


def test_an_empty_table_is_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(EvaluationError, match="holds no use of a word"):
        homographs(load(model), uses(tmp_path / "a"), uses(tmp_path / "b"), None)


def test_a_place_beyond_the_sentence_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"beyond\.tsv: token '2' of a sentence of 2"):
        read_uses(uses(tmp_path / "beyond.tsv", ("w", "s", 2, "two tokens")))


def test_a_truncated_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="line 2 has 1 columns, expected 4"):
        read_uses(written(tmp_path / "cut.tsv", "word\tsense\ttoken_index\tsentence\nlead\n"))
