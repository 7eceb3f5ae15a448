"""The built-in English model: senses in its top layer, and documents that agree with it."""

import re
from itertools import combinations, product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import describe_model, find_softmax, open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.tasks.evaluate import senses, table
from elmo_model.tasks.features import encode_by

ROOT = Path(__file__).parents[3]
CARD = ROOT / "model/elmo_model/models/english.md"
WEIGHTS = ROOT / "model/elmo_model/models/english.safetensors"

# For each word two sentences with one sense, and two with another.
SENSES = {
    "bank": (
        ("She opened an account at the bank .", "He borrowed the money from a bank ."),
        ("We sat on the bank of the river .", "Trees grow along the bank of the stream ."),
    ),
}


@pytest.fixture(scope="module")
def english() -> ElmoNetwork:
    return open_model("english")


def vector(elmo: ElmoNetwork, word: str, text: str) -> Tensor:
    """Return the layers (L + 1, 2P) of a word in a sentence."""
    tokens = text.split()
    return elmo.embed([tokens])[0][:, tokens.index(word)]


def cosines(elmo: ElmoNetwork, word: str) -> tuple[list[Tensor], list[Tensor]]:
    """Return the cosines of each layer: pairs of one sense, and pairs of two senses."""
    first, second = ([vector(elmo, word, text) for text in texts] for texts in SENSES[word])
    alike = [*combinations(first, 2), *combinations(second, 2)]
    return (
        [torch.cosine_similarity(*pair, dim=1) for pair in alike],
        [torch.cosine_similarity(*pair, dim=1) for pair in product(first, second)],
    )


@pytest.mark.parametrize("word", SENSES)
def test_a_word_is_nearer_to_its_own_sense_in_the_top_layer(
    english: ElmoNetwork, word: str
) -> None:
    same, other = cosines(english, word)
    assert min(float(pair[2]) for pair in same) > max(float(pair[2]) for pair in other) + 0.02
    assert all(float(pair[0]) == pytest.approx(1, abs=1e-6) for pair in same + other)


def test_the_documented_sense_scores_are_those_of_this_model(english: ElmoNetwork) -> None:
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    block = re.findall(
        r"^\$ elmo evaluate english --senses\n(.*?)```", text, re.DOTALL | re.MULTILINE
    )

    assert block == [table(senses(encode_by(Encoder.of(english)))) + "\n"]


def test_the_card_names_this_network(english: ElmoNetwork) -> None:
    config, origin = describe_model("english")
    card = CARD.read_text(encoding="utf-8")
    assert (origin.name, origin.format) == ("english", "native")
    assert f"`{origin.revision}`" in card and f"{config.parameter_count:,}" in card
    assert "CC BY-SA 4.0" in card
    assert WEIGHTS.stat().st_size < 30_000_000


def test_its_softmax_lies_in_a_file_of_its_own_and_names_this_network(english: ElmoNetwork) -> None:
    found = find_softmax("english", english)
    assert found is not None
    assert (found.words, found.total, found.width) == (50_000, 50_000, 256)
    assert found.revision == english.origin.revision  # which it does not change
    path = Path(found.label)
    assert f"`{path.name}`, {path.stat().st_size / 1e6:.1f} MB" in CARD.read_text(encoding="utf-8")
    assert found.read().weight.dtype == torch.int8
