"""The program that judges a model: its probes, thresholds, senses, stability and tables."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.evaluation.__main__ import stability_table, table
from benchmarks.evaluation.probes import (
    SENTENCES,
    Score,
    homographs,
    nearest_centroid,
    predictions,
    senses,
    separation,
    tagging,
)
from benchmarks.evaluation.stability import BAR, TOKENS, sets, stability
from benchmarks.evaluation.uses import read_pairs, read_tagged, read_uses
from benchmarks.evaluation.word_in_context import best_threshold, word_in_context
from elmo_model.checkpoints import load
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from tests.support.checkpoints import write_pair

ROOT = Path(__file__).parents[2]
CARD = ROOT / "model" / "elmo_model" / "models" / "english.md"

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def elmo(tmp_path: Path) -> ElmoNetwork:
    return load(write_pair(tmp_path / "model", cell=16, projection=8))


@pytest.fixture
def encoder(elmo: ElmoNetwork) -> Encoder:
    return Encoder.of(elmo)


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def uses(path: Path, *rows: tuple[str, str, int, str]) -> Path:
    """Write a table of word senses: word, sense, place of the word, sentence."""
    lines = ["\t".join(map(str, row)) for row in rows]
    return written(path, "word\tsense\ttoken_index\tsentence", *lines)


def pairs(path: Path, *rows: tuple[str, int, int, str, str]) -> Path:
    """Write a table of words in context: label, two places, two sentences."""
    lines = ["w\t" + "\t".join(map(str, row)) for row in rows]
    return written(path, "word\tlabel\tindex1\tindex2\tsentence1\tsentence2", *lines)


def test_the_linear_probe_learns_what_is_linear_at_any_scale_and_no_exclusive_or() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(600, 8, generator=generator)
    labels = (features @ torch.randn(8, 3, generator=generator)).argmax(dim=1)
    scaled = features * torch.logspace(-3, 3, 8) + 5
    found = predictions(scaled[:400], labels[:400], scaled[400:], 3)
    assert (found == labels[400:]).float().mean() > 0.93

    either = (features[:, 0] * features[:, 1] > 0).long()
    found = predictions(features[:400, :2], either[:400], features[400:, :2], 2)
    assert (found == either[400:]).float().mean() < 0.7


def test_a_feature_that_never_changes_does_no_harm() -> None:
    features = torch.tensor([[1.0, 7.0], [-1.0, 7.0], [2.0, 7.0], [-2.0, 7.0]])
    found = predictions(features, torch.tensor([1, 0, 1, 0]), features, 2)
    assert found.tolist() == [1, 0, 1, 0]


def test_the_nearest_centroid_has_the_greatest_cosine() -> None:
    train = torch.tensor([[10.0, 0.0], [20.0, 1.0], [0.0, 0.1], [0.1, 0.2]])
    asked = torch.tensor([[0.2, 0.1], [0.4, 2.0]])
    assert nearest_centroid(train, torch.tensor([0, 0, 1, 1]), asked, 2).tolist() == [0, 1]


def test_the_token_layer_learns_tags_that_depend_on_the_word(
    tmp_path: Path, encoder: Encoder
) -> None:
    generator = np.random.default_rng(0)
    words = {"cat": "NOUN", "dog": "NOUN", "runs": "VERB", "sits": "VERB", "the": "DET"}

    def row(number: int, word: str, tag: str) -> str:
        return f"{number}\t{word}\t_\t{tag}" + 6 * "\t_" + "\n"

    def sentences(count: int) -> list[str]:
        drawn = generator.choice(list(words), size=(count, 5)).tolist()
        return [
            "".join(row(number, word, words[word]) for number, word in enumerate(each, 1))
            for each in drawn
        ]

    train = written(tmp_path / "train.conllu", *sentences(40))
    test = written(tmp_path / "test.conllu", *sentences(10), row(1, "odd", "X"))
    score = tagging(encoder, read_tagged(train), read_tagged(test))
    assert score.items == 51  # and the tag that training lacks is wrong
    assert score.layers[0] == score.baseline == pytest.approx(100 * 50 / 51)


def test_senses_that_depend_on_a_neighbour_need_a_layer_with_context(
    tmp_path: Path, encoder: Encoder
) -> None:
    generator = np.random.default_rng(1)

    def rows(count: int) -> list[tuple[str, str, int, str]]:
        made = []
        for number in range(count):
            sense, near = (("fish", "river"), ("tone", "loud"))[number % 2]
            filler = " ".join(generator.choice(["a", "the", "of", "in"], size=3))
            made.append(("bass", sense, 1, f"{near} bass {filler}"))
        return made

    train = uses(tmp_path / "train.tsv", *rows(40))
    test = uses(tmp_path / "test.tsv", *rows(20), ("lead", "metal", 0, "lead"))
    centroid, probe = homographs(encoder, read_uses(train), read_uses(test))
    assert centroid.items == probe.items == 21  # a word that training lacks is wrong
    assert probe.layers[0] == centroid.baseline == pytest.approx(100 * 10 / 21)
    assert min(probe.layers[1:]) == pytest.approx(100 * 20 / 21)
    assert max(centroid.layers[1:]) > 90


def test_the_threshold_separates_most_pairs() -> None:
    cosines = np.array([0.9, 0.1, 0.8, 0.3, 0.2, 0.25])
    same = np.array([True, False, True, False, True, False])
    assert 0.3 < best_threshold(cosines, same) < 0.8
    assert best_threshold(cosines, np.ones(6, dtype=bool)) == -np.inf
    assert best_threshold(cosines, np.zeros(6, dtype=bool)) == np.inf
    # No threshold separates equal cosines.
    assert best_threshold(np.full(3, 0.5), np.array([True, False, False])) == np.inf


def test_a_word_with_other_neighbours_needs_a_layer_with_context(
    tmp_path: Path, encoder: Encoder
) -> None:
    same = ("T", 1, 1, "loud bass a", "loud bass a")
    other = ("F", 1, 1, "river bass a", "loud bass a")
    path = pairs(tmp_path / "wic.tsv", *[same, same, other, other] * 5)
    score = word_in_context(encoder, read_pairs(path))
    assert score.items == 20 and score.baseline == 50
    assert score.layers[0] <= 50
    assert max(score.layers[1:]) == 100


def test_the_built_in_set_is_30_words_of_two_senses_with_two_sentences_each() -> None:
    found = read_uses(SENTENCES)
    assert set(Counter((use.word, use.label) for use in found).values()) == {2}
    assert all(use.sentence[use.place] == use.word for use in found)
    assert len({use.sentence for use in found}) == len(found) == 120


def test_separation_is_the_cosine_within_senses_minus_across() -> None:
    labels = ["one", "one", "two", "two"]
    apart = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert separation(apart, labels) == pytest.approx(1.0)
    assert separation(apart[[0, 2, 1, 3]], labels) == pytest.approx(-0.5)


def test_the_card_has_the_sense_scores_of_the_default_model() -> None:
    score = senses(Encoder.of(open_model("english")))
    name, figures = score.name, table([score]).splitlines()[1:]
    card = CARD.read_text(encoding="utf-8").splitlines()
    shown = [line for line in card if line.startswith(name)][: len(figures)]

    assert [" ".join(line.split()) for line in shown] == [" ".join(row.split()) for row in figures]
    assert score.layers[0] == 0.0 and len(score.misses[0]) == score.items == 30


def test_a_seed_makes_long_texts_of_every_kind() -> None:
    made = sets(3)
    assert made == sets(3)
    assert len(made) == 9
    for texts in made.values():
        assert [len(text) for text in texts] == [TOKENS] * 3
        assert len({tuple(text) for text in texts}) == 3
    assert all(word.isdigit() for word in made["numbers of one to four digits"][0])
    assert len(set(made["one word, repeated"][0])) == 1
    assert sorted(made["prose"][0]) != made["prose"][0]


def with_recurrence(elmo: ElmoNetwork, factor: float) -> None:
    """Multiply the recurrent matrices of a network."""
    with torch.no_grad():
        for name, value in elmo.named_parameters():
            if name.endswith("recurrent.weight"):
                value.mul_(factor)


def test_a_network_that_amplifies_is_told_from_a_calm_one(elmo: ElmoNetwork) -> None:
    with_recurrence(elmo, 0.1)
    (calm,) = islice(stability(elmo, 1), 1)
    assert max(calm.layers) < BAR and calm.bfloat16 > 0.99
    assert calm.over == 0 and calm.first is None

    with_recurrence(elmo, 300)
    (chaotic,) = islice(stability(elmo, 1), 1)
    assert chaotic.layers[0] < BAR < max(chaotic.layers)
    assert chaotic.over == 1 and chaotic.first is not None and chaotic.first > 0
    assert "1 of 1" in stability_table([chaotic])


def test_it_is_measured_in_float32(elmo: ElmoNetwork) -> None:
    """In bfloat16 a change of the weights by `NOISE` would be rounded away."""
    (rounded,) = islice(stability(elmo.bfloat16(), 1), 1)
    (exact,) = islice(stability(elmo.float(), 1), 1)

    assert rounded == exact and max(exact.layers) > 0


def test_the_default_model_is_stable_on_numbers_and_on_a_repeated_word() -> None:
    """The two sets that the network of one release before amplified most."""
    for found in islice(stability(open_model("english"), 1), 2):
        assert max(found.layers) < BAR, found
        assert found.bfloat16 > 0.999, found


def test_the_best_layer_is_marked() -> None:
    lines = table([Score("one", (1.0, 3.0, 2.0), 1000, 0.5, "guess")]).splitlines()
    assert "3.0*" in lines[1] and lines[1].count("*") == 1
    assert "1,000" in lines[1] and lines[1].endswith("0.5 (guess)")
