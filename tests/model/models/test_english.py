"""The built-in English model, its softmax, and the card that describes both."""

from pathlib import Path

import pytest
import torch

from elmo_model.models.opening import find_softmax, open_model
from elmo_model.network.elmo import ElmoNetwork

ROOT = Path(__file__).parents[3]
CARD = ROOT / "model/elmo_model/models/english.md"
WEIGHTS = ROOT / "model/elmo_model/models/english.safetensors"


@pytest.fixture(scope="module")
def english() -> ElmoNetwork:
    return open_model("english")


def test_the_card_names_this_network(english: ElmoNetwork) -> None:
    config, origin = english.config, english.origin
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
