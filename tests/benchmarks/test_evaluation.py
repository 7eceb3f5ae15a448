"""The program that scores a model on evaluation sets: its classifiers, thresholds and tables."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.evaluation.__main__ import main
from benchmarks.evaluation.homographs import homographs
from benchmarks.evaluation.probe import nearest_centroid, predictions, tagging
from benchmarks.evaluation.word_in_context import best_threshold, read_pairs, word_in_context
from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.features import FeaturesOf, encode_by, features_of
from tests.support.checkpoints import write_pair

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "model", cell=16, projection=8)


@pytest.fixture
def computed(model: Path) -> FeaturesOf:
    return partial(features_of, encode_by(Encoder.of(load(model))))


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def uses(path: Path, *rows: tuple[str, str, int, str]) -> Path:
    """Write a table of word senses: word, sense, place of the word, sentence."""
    lines = ["word\tsense\ttoken_index\tsentence", *("\t".join(map(str, row)) for row in rows)]
    return written(path, "\n".join(lines) + "\n")


def pairs(path: Path, *rows: tuple[str, int, int, str, str]) -> Path:
    """Write a table of words in context: label, two places, two sentences."""
    lines = ["word\tlabel\tindex1\tindex2\tsentence1\tsentence2"]
    lines += ["w\t" + "\t".join(map(str, row)) for row in rows]
    return written(path, "\n".join(lines) + "\n")


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


def test_sets_without_an_item_and_wrong_labels_are_refused(
    tmp_path: Path, computed: FeaturesOf
) -> None:
    empty = written(tmp_path / "a.conllu", "# nothing\n")
    with pytest.raises(FitError, match=r"a\.conllu: holds no tagged sentence"):
        tagging(computed, empty, empty, "upos", None)
    with pytest.raises(FitError, match="holds no use of a word"):
        homographs(computed, uses(tmp_path / "a.tsv"), uses(tmp_path / "b.tsv"), None)
    with pytest.raises(FitError, match="expected at least 2 pairs, found 0"):
        word_in_context(computed, pairs(tmp_path / "empty.tsv"), None)
    with pytest.raises(FitError, match=r"label\.tsv:3: label is 'yes', expected T or F"):
        read_pairs(pairs(tmp_path / "label.tsv", ("T", 0, 0, "a", "a"), ("yes", 0, 0, "a", "a")))
    with pytest.raises(FitError, match="a pair has no index1 or no index2"):
        read_pairs(written(tmp_path / "a.tsv", "label\tsentence1\tsentence2\nT\ta\tb\n"))


def test_the_program_prints_a_line_a_set(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wic = pairs(tmp_path / "wic.tsv", *[("T", 0, 0, "a", "a"), ("F", 0, 0, "a", "b")] * 4)

    main([str(model), "--wic", str(wic)])

    printed = capsys.readouterr().out
    assert "token layer" in printed and "word in context, cosine" in printed
