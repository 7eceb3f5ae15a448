"""The linear probe learns linear functions of its features; tagging counts what it finds."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.tasks.evaluation.probe import nearest_centroid, predictions, tagging
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf
from tests.support.evaluation_sets import written


def test_what_is_linear_is_learnt_at_any_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(600, 8, generator=generator)
    labels = (features @ torch.randn(8, 3, generator=generator)).argmax(dim=1)
    scaled = features * torch.logspace(-3, 3, 8) + 5
    found = predictions(scaled[:400], labels[:400], scaled[400:], 3)
    assert (found == labels[400:]).float().mean() > 0.93
    again = predictions(scaled[:400], labels[:400], scaled[400:], 3)
    assert torch.equal(found, again)


def test_an_exclusive_or_is_not() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(600, 2, generator=generator)
    labels = (features[:, 0] * features[:, 1] > 0).long()
    found = predictions(features[:400], labels[:400], features[400:], 2)
    assert (found == labels[400:]).float().mean() < 0.7


def test_a_feature_that_never_changes_does_no_harm() -> None:
    features = torch.tensor([[1.0, 7.0], [-1.0, 7.0], [2.0, 7.0], [-2.0, 7.0]])
    found = predictions(features, torch.tensor([1, 0, 1, 0]), features, 2)
    assert found.tolist() == [1, 0, 1, 0]


def test_the_nearest_centroid_has_the_greatest_cosine() -> None:
    train = torch.tensor([[10.0, 0.0], [20.0, 1.0], [0.0, 0.1], [0.1, 0.2]])
    found = nearest_centroid(
        train, torch.tensor([0, 0, 1, 1]), torch.tensor([[0.2, 0.1], [0.4, 2.0]]), 2
    )
    assert found.tolist() == [0, 1]


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
    with pytest.raises(FitError, match=r"a\.conllu: holds no tagged sentence"):
        tagging(computed, empty, empty, "upos", None)
