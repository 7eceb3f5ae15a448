"""Models without characters: precomputed token vectors, and word-input models."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, allennlp, load, save
from tests.support import golden
from tests.support.checkpoints import (
    change_options,
    read_pair,
    without_dataset,
    write_pair,
    write_word_pair,
)
from tests.support.reference import bilm, token_vector

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", "naïve", "", "a\u2028b")
SENTENCES = [["the", "cat"], [], ["naïve", "", "a\u2028b", "the"], ["unheard", "<UNK>", "<S>"]]


def write_vocabulary(folder: Path, words: tuple[str, ...] = WORDS, name: str = "vocab.txt") -> None:
    content = "".join(f"{word}\n" for word in words).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def two_vocabularies(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    for name in ("vocab-a.txt", "vocab-b.txt"):
        write_vocabulary(folder, name=name)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A pair, its vocabulary, and the token vectors that bilm-tf would compute from them."""
    folder = write_pair(tmp_path / "tokens")
    options, weights = read_pair(folder)
    vectors = [token_vector(word, options, weights, np.float32) for word in WORDS]
    write_vocabulary(folder)
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "w") as file:
        file["embedding"] = np.stack(vectors)
    return folder


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A word-input model."""
    return write_word_pair(tmp_path / "words", WORDS)


def test_precomputed_vectors_replace_the_characters(tokens: Path) -> None:
    cached, spelt = load(tokens), load(tokens / "weights.hdf5")
    assert (cached.origin.format, spelt.origin.format) == ("token-embeddings", "allennlp")
    known = SENTENCES[:3]
    for one, two in zip(cached.embed(known), spelt.embed(known), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)


def test_the_table_is_found_by_its_own_name_and_in_a_zip(tokens: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tokens.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in tokens.iterdir():
            file.write(path, f"216/{path.name}")
    expected = load(tokens).origin.revision
    assert load(tokens / "elmo_token_embeddings.hdf5").origin.revision == expected
    assert load(archive).origin.revision == expected


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


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.txt.gz", "vocab-2016-09-10.txt"])
def test_a_vocabulary_is_plain_or_gzipped(words: Path, name: str) -> None:
    expected = load(words).origin
    (words / "vocab.txt").unlink()
    write_vocabulary(words, name=name)
    assert load(words).origin == expected


def test_lines_are_read_as_in_bilm_tf(words: Path) -> None:
    expected = load(words).origin
    lines = [" <S> ", "</S>", "!!!MAXTERMID", "<UNK>", *WORDS[3:]]
    (words / "vocab.txt").write_bytes("\r\n".join(lines).encode() + b"\r\n")
    assert load(words).origin == expected


@pytest.mark.parametrize("form", ["words", "tokens"])
def test_every_bit_is_kept_by_both_formats(
    form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    elmo = load(request.getfixturevalue(form))
    save(elmo, tmp_path / "model.safetensors")
    native = load(tmp_path / "model.safetensors")
    allennlp.write(native, tmp_path / "pair")
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
    allennlp.write(elmo, folder)
    assert load(folder).alphabet == elmo.alphabet


Damage = Callable[[Path], object]
REFUSED: dict[str, tuple[Damage, str]] = {
    "no unknown": (
        lambda f: write_vocabulary(f, tuple(w for w in WORDS if w != "<UNK>")),
        r"vocab\.txt: vocabulary lacks <UNK>; expected rows for <S>, </S>, <UNK>",
    ),
    "no vocabulary": (
        lambda f: (f / "vocab.txt").unlink(),
        r"holds no vocab\.txt or vocab\.txt\.gz, expected one",
    ),
    "two vocabularies": (
        two_vocabularies,
        r"holds vocab-a\.txt, vocab-b\.txt, expected one vocab\.txt",
    ),
    "of another model": (
        lambda f: write_vocabulary(f, (*WORDS, "dog")),
        r"embedding has shape \(8, 4\), expected \(9, 4\)",
    ),
    "latin": (
        lambda f: (f / "vocab.txt").write_bytes(b"<S>\n</S>\n<UNK>\n\xe9\n"),
        r"vocab\.txt: is not UTF-8",
    ),
    "width": (
        lambda f: change_options(f, "lstm", projection_dim=5),
        r"embedding has shape \(8, 4\), expected \(8, 5\) by .*options",
    ),
    "no direction": (lambda f: without_dataset_of_weights(f, "RNN_1"), r"RNN_1/.*W_0 is missing"),
}


def without_dataset_of_weights(folder: Path, name: str) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file[name]


@pytest.mark.parametrize("form", ["words", "tokens"])
@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_model_is_refused_by_name(
    form: str, damage: Damage, message: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(form)
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


def test_a_table_without_a_row_for_words_is_refused(words: Path) -> None:
    without_dataset(words, "embedding")
    with pytest.raises(CheckpointError, match="embedding is missing, expected"):
        load(words)


def test_a_vocabulary_that_unpacks_to_too_much_is_refused(words: Path) -> None:
    (words / "vocab.txt").unlink()
    with gzip.open(words / "vocab.txt.gz", "wb", compresslevel=1) as file:
        for _ in range(65):
            file.write(bytes(1 << 20))
    with pytest.raises(CheckpointError, match="is larger than expected, at most 67,108,864"):
        load(words)


@pytest.mark.parametrize("packed", [True, False])
def test_a_bundle_of_nlpl_is_read_as_the_pair(tmp_path: Path, packed: bool) -> None:
    folder = tmp_path / "210"
    folder.mkdir()
    (folder / "model.hdf5").write_bytes((golden.SMALL / "weights.hdf5").read_bytes())
    (folder / "options.json").write_bytes((golden.SMALL / "options.json").read_bytes())
    change_options(folder, "char_cnn", n_characters=261)  # as written by training
    write_vocabulary(folder, name="vocab.txt.gz")
    (folder / "README").write_text("norwegian")
    (folder / "meta.json").write_text("{}")
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"')
    place = folder
    if packed:
        place = tmp_path / "210.zip"
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as file:
            for path in folder.iterdir():
                file.write(path, path.name)
    bundle, published = load(place), load(golden.SMALL)
    assert (bundle.origin.name, bundle.origin.format) == ("210", "allennlp")
    assert bundle.origin.revision == published.origin.revision
