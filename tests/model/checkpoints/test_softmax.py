"""A softmax is found beside every kind of checkpoint that has one, and read as it was written."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from elmo_model.checkpoints import CheckpointError, softmax
from elmo_model.models.opening import find_softmax, open_model
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import WordVocabulary
from tests.support import training as golden
from tests.support.training import write_bundle

STORED = golden.arrays("char/weights_init")
WEIGHT, BIAS = STORED["lm/softmax/W"], STORED["lm/softmax/b"]
WORDS = golden.vocabulary().words


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bundle")


def pair(tmp_path: Path, name: str = "elmo_x_") -> Path:
    """Write the published pair of the same network with AllenNLP's file of the softmax."""
    folder = tmp_path / "pair"
    folder.mkdir()
    shutil.copy(golden.CHAR / "options.json", folder / f"{name}options.json")
    shutil.copy(golden.CHAR / "dumped_init.hdf5", folder / f"{name}weights.hdf5")
    shutil.copy(golden.FOLDER / "vocab.txt", folder / "vocab-2016-09-10.txt")
    with h5py.File(folder / f"{name}softmax_weights.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = WEIGHT, BIAS
    return folder


def in_memory() -> WordSoftmax:
    vocabulary = WordVocabulary(WORDS)
    return WordSoftmax(
        torch.from_numpy(WEIGHT), torch.from_numpy(BIAS), vocabulary, len(vocabulary.words)
    )


def read(path: Path, words: int | None = None) -> WordSoftmax:
    found = find_softmax(path, open_model(path), words=words)
    assert found is not None
    return found.read()


def test_it_is_that_of_a_checkpoint_of_bilm_tf_and_of_allennlps_file(
    bundle: Path, tmp_path: Path
) -> None:
    folder = pair(tmp_path)
    for path in (bundle, folder, folder / "elmo_x_weights.hdf5"):
        found = read(path)
        np.testing.assert_array_equal(found.weight, WEIGHT)
        np.testing.assert_array_equal(found.bias, BIAS)
        assert tuple(found.vocabulary.words) == WORDS
        assert found.total == len(WORDS)


def test_a_model_without_one_has_none(tmp_path: Path, bundle: Path) -> None:
    folder = pair(tmp_path)
    (folder / "elmo_x_softmax_weights.hdf5").unlink()
    assert find_softmax(folder, open_model(folder)) is None
    (bundle / "vocab.txt").unlink()  # nobody knows the words of its rows
    assert find_softmax(bundle, open_model(bundle)) is None
    with pytest.raises(CheckpointError, match=r"holds no vocab\.txt"):
        softmax.open_file(bundle)


def test_our_own_file_keeps_floats_exactly_and_bytes_to_half_a_step(tmp_path: Path) -> None:
    path = tmp_path / f"a{softmax.ENDING}"
    softmax.save(in_memory(), path, "0123456789ab", torch.float32)
    exact = softmax.open_file(path)
    assert (exact.total, exact.revision) == (len(WORDS), "0123456789ab")
    np.testing.assert_array_equal(exact.read().weight, WEIGHT)

    softmax.save(in_memory(), path, "0123456789ab")
    found = softmax.open_file(path).read()
    step = np.abs(WEIGHT).max(axis=1, keepdims=True) / 127
    assert (np.abs(found.rows(slice(None)).numpy() - WEIGHT) <= step * 0.5001).all()
    np.testing.assert_array_equal(found.bias, BIAS)
    assert tuple(found.vocabulary.words) == WORDS


def test_the_first_words_are_a_cut_that_keeps_the_special_ones(bundle: Path) -> None:
    found = read(bundle, words=10)
    assert tuple(found.vocabulary.words) == WORDS[:10]
    assert found.weight.shape == (10, WEIGHT.shape[1])
    assert found.total == len(WORDS)
    assert len(read(bundle, words=10**6).vocabulary.words) == len(WORDS)
    with pytest.raises(CheckpointError, match="<UNK>"):
        read(bundle, words=2)


def test_the_softmax_of_another_network_is_refused(tmp_path: Path, bundle: Path) -> None:
    path = tmp_path / f"a{softmax.ENDING}"
    softmax.save(in_memory(), path, "0123456789ab")
    elmo = open_model(bundle)
    with pytest.raises(CheckpointError, match=f"0123456789ab.*expected {elmo.origin.revision}"):
        find_softmax(bundle, elmo, path)
    with pytest.raises(CheckpointError, match="256"):
        find_softmax("english", open_model("english"), path)


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = pair(tmp_path)
    (folder / "vocab-2016-09-10.txt").write_text("<S>\n</S>\n<UNK>\n")
    with pytest.raises(CheckpointError, match="3 words"):
        read(folder)
    wrong = tmp_path / "wrong.hdf5"
    with h5py.File(wrong, "w") as file:
        file["softmax/W"] = WEIGHT
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    with pytest.raises(CheckpointError, match="softmax/b is missing"):
        softmax.open_file(wrong)
    wrong.write_bytes(b"x" * 20)
    with pytest.raises(CheckpointError, match="holds no softmax"):
        softmax.open_file(wrong)
    with pytest.raises(CheckpointError, match="No such file"):
        softmax.open_file(tmp_path / "none")


ROWS = len(WORDS)
DAMAGE: dict[str, tuple[dict[str, torch.Tensor | None], dict[str, str], str]] = {
    "total": ({}, {"total": "abc"}, "abc"),
    "few": ({}, {"total": "2"}, "total is '2'"),
    "no weight": ({"weight": None}, {}, "weight is missing"),
    "flat": ({"weight": torch.zeros(ROWS)}, {}, "weight has shape"),
    "type": ({"weight": torch.zeros(ROWS, 4).double(), "scale": None}, {}, "F64"),
    "no words": ({"words": None}, {}, "words is missing"),
    "no bias": ({"bias": None}, {}, "bias is missing"),
    "short bias": ({"bias": torch.zeros(2)}, {}, "bias has shape"),
    "type of bias": ({"bias": torch.zeros(ROWS).half()}, {}, "F16"),
    "no scale": ({"scale": None}, {}, "scale is missing"),
    "short scale": ({"scale": torch.zeros(2)}, {}, "scale has shape"),
    "scale of floats": ({"weight": torch.zeros(ROWS, 4)}, {}, "scale is found"),
    "Latin-1": ({"words": torch.tensor([233, 10], dtype=torch.uint8)}, {}, "UTF-8"),
    "words": ({"words": torch.tensor([65, 10], dtype=torch.uint8)}, {}, "1 words"),
    "foreign": ({}, {"format": "pt"}, "no softmax"),
}


@pytest.mark.parametrize(("tensors", "header", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_file_of_our_own_is_refused_in_one_line(
    tmp_path: Path, tensors: dict[str, torch.Tensor | None], header: dict[str, str], message: str
) -> None:
    path = tmp_path / f"a{softmax.ENDING}"
    softmax.save(in_memory(), path, "0123456789ab")
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    changed = {**load_file(path), **tensors}
    kept = {name: tensor for name, tensor in changed.items() if tensor is not None}
    save_file(kept, path, metadata={**metadata, **header})

    with pytest.raises(CheckpointError, match=message) as refusal:
        softmax.open_file(path).read()

    assert "\n" not in str(refusal.value) and str(path) in str(refusal.value)


def test_a_truncated_file_of_our_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / f"a{softmax.ENDING}"
    softmax.save(in_memory(), path, "0123456789ab")
    found = softmax.open_file(path)
    path.write_bytes(path.read_bytes()[:-7])

    for refused in (found.read, lambda: softmax.open_file(path)):
        with pytest.raises(CheckpointError, match="whole"):
            refused()
