"""Models without characters: word-input models."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load, published_pair, save
from tests.support.checkpoints import (
    change_options,
    read_pair,
    write_word_pair,
)
from tests.support.reference import bilm

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", "naïve", "", "a\u2028b")
SENTENCES = [["the", "cat"], [], ["naïve", "", "a\u2028b", "the"], ["unheard", "<UNK>", "<S>"]]


def write_vocabulary(folder: Path, words: tuple[str, ...] = WORDS, name: str = "vocab.txt") -> None:
    content = "".join(f"{word}\n" for word in words).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A word-input model."""
    return write_word_pair(tmp_path / "words", WORDS)


@pytest.mark.parametrize("is_null", [False, True])
def test_a_word_input_model_equals_the_reference(words: Path, is_null: bool) -> None:
    if is_null:  # as a port of ELMo to PyTorch writes it
        change_options(words, None, char_cnn=None)
    options, weights = read_pair(words)
    rows = {word: row for row, word in enumerate(WORDS)}
    for sentence, layers in zip(SENTENCES, load(words).embed(SENTENCES), strict=True):
        framed = ["<S>", *sentence, "</S>"]
        table = weights["embedding"].astype(np.float64)
        expected, _ = bilm(
            np.stack([table[rows.get(word, rows["<UNK>"])] for word in framed]), options, weights
        )
        np.testing.assert_allclose(layers.numpy(), expected[:, 1:-1], rtol=0, atol=1e-5)


def test_every_bit_is_kept_by_both_formats(words: Path, tmp_path: Path) -> None:
    elmo = load(words)
    save(elmo, tmp_path / "model.safetensors")
    native = load(tmp_path / "model.safetensors")
    published_pair.write(native, tmp_path / "pair")
    pair = load(tmp_path / "pair")
    assert elmo.origin.revision == native.origin.revision == pair.origin.revision
    assert "char_cnn" not in json.loads((tmp_path / "pair" / "options.json").read_text())
    for other in (native, pair):
        assert other.alphabet == elmo.alphabet and other.config == elmo.config
        for one, two in zip(other.embed(SENTENCES), elmo.embed(SENTENCES), strict=True):
            assert torch.equal(one, two)
    assert elmo.config.parameter_count == sum(parameter.numel() for parameter in elmo.parameters())


def test_a_written_vocabulary_takes_the_place_of_a_compressed_one(
    words: Path, tmp_path: Path
) -> None:
    """A reader prefers `vocab.txt.gz`: its words would get the rows of others."""
    elmo = load(words)
    folder = tmp_path / "written"
    folder.mkdir()
    write_vocabulary(folder, WORDS[:3] + WORDS[:2:-1], "vocab.txt.gz")
    published_pair.write(elmo, folder)
    assert load(folder).alphabet == elmo.alphabet


Damage = Callable[[Path], object]
REFUSED: dict[str, tuple[Damage, str]] = {
    "of another model": (lambda f: write_vocabulary(f, (*WORDS, "dog")), r"expected \(9, 4\)"),
    "width": (lambda f: change_options(f, "lstm", projection_dim=5), r"expected \(8, 5\)"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_model_is_refused_by_name(words: Path, damage: Damage, message: str) -> None:
    damage(words)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(words)
    assert "\n" not in str(refusal.value)
