"""Word senses: the built-in sentences and tables of homographs."""

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.tasks.evaluation.score import table
from elmo_model.tasks.evaluation.senses import SENTENCES, homographs, read_uses, senses, separation
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf, encode_by, features_of
from tests.support.command_line import elmo
from tests.support.evaluation_sets import uses, written


def test_the_set_is_30_words_of_two_senses_with_two_sentences_each() -> None:
    examples, words = read_uses(SENTENCES)
    assert len(Counter(words)) == 30 and set(Counter(words).values()) == {4}
    assert set(Counter(zip(words, examples.labels, strict=True)).values()) == {2}
    tokens = [examples.sentences[place.sentence][place.token or 0] for (place,) in examples.places]
    assert tokens == words
    assert len(set(examples.sentences)) == len(words)


def test_separation_is_the_cosine_within_senses_minus_across() -> None:
    senses = ["one", "one", "two", "two"]
    apart = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert separation(apart, senses) == pytest.approx(1.0)
    mixed = apart[[0, 2, 1, 3]]
    assert separation(mixed, senses) == pytest.approx(-0.5)


def test_the_token_layer_sees_no_context_and_misses_all() -> None:
    score = senses(partial(features_of, encode_by(Encoder.of(open_model("random-small")))))
    assert score.layers[0] == 0.0 and score.items == 30
    assert len(score.misses[0]) == 30
    for accuracy, missed in zip(score.layers, score.misses, strict=True):
        assert accuracy == pytest.approx(100 * (30 - len(missed)) / 30)
    assert f"missed by layer 2: {', '.join(score.misses[2])}" in table([score])


def test_the_command_scores_without_a_file() -> None:
    result = elmo("evaluate", "random-small", "--senses", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "senses of ordinary words" in result.stdout


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
    with pytest.raises(FitError, match="holds no use of a word"):
        homographs(computed, uses(tmp_path / "a.tsv"), uses(tmp_path / "b.tsv"), None)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "w\ts\t2\ttwo tokens\n", "a.tsv:2: token_index is '2', .* from 0 to 1"),
        ("a.tsv", "lead\n", "a.tsv:2: number of columns is 1, expected 4"),
        ("a.txt", "", "its name ends in .txt, expected .tsv, .csv or .jsonl"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path / name, f"word\tsense\ttoken_index\tsentence\n{text}")
    with pytest.raises(FitError, match=message):
        read_uses(path)
