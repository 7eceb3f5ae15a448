"""Tagging: scores of every layer."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.tasks.evaluation.probe import tagging
from elmo_model.tasks.evaluation.score import EvaluationError
from elmo_model.tasks.features import FeaturesOf
from tests.support.evaluation_sets import written


def test_the_token_layer_learns_tags_that_depend_on_the_word(
    tmp_path: Path, computed: FeaturesOf
) -> None:
    generator = np.random.default_rng(0)
    words = {"cat": "NOUN", "dog": "NOUN", "runs": "VERB", "sits": "VERB", "the": "DET"}

    def sentences(count: int) -> str:
        text = ""
        for _ in range(count):
            drawn = generator.choice(list(words), size=5)
            for number, word in enumerate(drawn, 1):
                text += f"{number}\t{word}\t_\t{words[word]}\t_\t_\t_\t_\t_\t_\n"
            text += "\n"
        return text

    train = written(tmp_path / "train.conllu", sentences(40))
    test = written(tmp_path / "test.conllu", sentences(10) + "1\todd\t_\tX\t_\t_\t_\t_\t_\t_\n\n")
    score = tagging(computed, train, test, "upos", None)
    assert score.items == 51  # and the tag that training lacks is wrong
    assert score.layers[0] == pytest.approx(100 * 50 / 51)
    assert score.baseline == pytest.approx(100 * 50 / 51)
    assert tagging(computed, train, test, "upos", 3).items == 15


def test_a_file_without_words_is_named(tmp_path: Path, computed: FeaturesOf) -> None:
    empty = written(tmp_path / "a.conllu", "# nothing\n")
    with pytest.raises(EvaluationError, match=r"a\.conllu: holds no tagged sentence"):
        tagging(computed, empty, empty, "upos", None)
