"""A warm start: the state after a fixed text, part of the network and of its revision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import CheckpointError, allennlp, load, save
from elmo_model.checkpoints.conversion import warmed
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import Elmo
from elmo_model.network.state import State
from tests.support.checkpoints import write_pair

LINES = [["The", "bank", "of", "the", "river"], ["It", "rains", "."]]
SENTENCES = [["A", "bank"], [], ["It", "pours", "東京", "x"]]


@pytest.fixture
def cold(tmp_path: Path) -> Elmo:
    return load(write_pair(tmp_path / "pair"))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(line) + "\n" for line in LINES))
    return path


def test_every_sentence_starts_from_the_state_after_the_text(cold: Elmo, text: Path) -> None:
    warm = warmed(cold, text)
    with torch.inference_mode():
        state = State.zero(cold.config.lstm, torch.empty(0), 1)
        for sentence in [*LINES] * 4:
            _, state = cold([sentence], state)
        for sentence, found in zip(SENTENCES, warm.embed(SENTENCES), strict=True):
            expected, _ = cold([sentence], state)
            torch.testing.assert_close(found, expected.layers[:, 1:-1], rtol=1e-5, atol=1e-6)


def test_the_fast_network_starts_there_too(cold: Elmo, text: Path) -> None:
    warm = warmed(cold, text)
    encoder = Encoder.of(warm)
    for sentence, found, expected in zip(
        SENTENCES, encoder.embed(SENTENCES), warm.embed(SENTENCES), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=5e-5)
        (alone,) = encoder.embed([sentence])
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)
    bounded = encoder.encode_whole(SENTENCES, bounded=True)
    carried, _ = encoder.encode_from(SENTENCES)
    slow, _ = warm(SENTENCES)
    for representations in (bounded, carried):
        torch.testing.assert_close(representations.layers, slow.layers, rtol=1e-4, atol=5e-5)
    (warm_vectors,), (cold_vectors,) = encoder.embed([["It"]]), cold.embed([["It"]])
    assert (warm_vectors - cold_vectors).abs().max() > 1e-3


def test_the_revision_covers_it_and_our_own_format_keeps_it(
    cold: Elmo, text: Path, tmp_path: Path
) -> None:
    warm = warmed(cold, text)
    longer = tmp_path / "longer.txt"
    longer.write_text(text.read_text() * 2)
    twice = warmed(cold, longer)
    assert len({each.origin.revision for each in (cold, warm, twice)}) == 3
    save(warm, tmp_path / "warm.safetensors")
    read = load(tmp_path / "warm.safetensors")
    assert read.origin.revision == warm.origin.revision
    for found, expected in zip(read.embed(SENTENCES), warm.embed(SENTENCES), strict=True):
        assert torch.equal(found, expected)
    # a network that has one already is warmed from zeros again
    assert warmed(read, text).origin.revision == warm.origin.revision
    with pytest.raises(CheckpointError, match="hold no warm start"):
        allennlp.write(warm, tmp_path / "published")


def test_a_text_without_tokens_is_refused(cold: Elmo, tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_text("\n \n")
    with pytest.raises(CheckpointError, match=r"empty.txt: holds 0 tokens, expected 1 to 100,000"):
        warmed(cold, path)
