"""Checkpoints of bilm-tf: names, sizes and damage.

TensorFlow 2.21 saved the golden checkpoint from the weights of `golden/bilm_training/char`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load
from tests.support import golden
from tests.support.checkpoint_formats import variables, write_bundle
from tests.support.checkpoints import change_options, write_pair

HOME = golden.GOLDEN / "tensorflow"


def checkpoint(folder: Path, pair: Path, **options: int) -> Path:
    """Write the checkpoint that training would leave for the weights of a pair."""
    write_bundle(folder / "model.ckpt-7", variables(pair), **options)  # type: ignore[arg-type]
    shutil.copy(pair / "options.json", folder / "options.json")
    return folder


def test_a_checkpoint_of_tensorflow_equals_the_dump_of_bilm_tf(dumped: Path) -> None:
    elmo = load(HOME / "bilm_tf")
    assert (elmo.origin.name, elmo.origin.format) == ("bilm_tf", "bilm-tf")
    assert elmo.origin.revision == load(dumped).origin.revision
    assert load(HOME / "bilm_tf" / "model.ckpt-6.index").origin.revision == elmo.origin.revision


@pytest.mark.parametrize(
    "shape",
    [{}, {"layers": 1}, {"layers": 3, "highways": 0}, {"cell": 4, "filters": ((1, 2), (2, 2))}],
    ids=["usual", "one layer", "three", "no projections"],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_checkpoint_equals_the_pair_of_its_weights(
    tmp_path: Path, shape: dict[str, int], shards: int
) -> None:
    pair = write_pair(tmp_path / "pair", **shape)  # type: ignore[arg-type]
    folder = checkpoint(tmp_path / "ckpt", pair, shards=shards)
    assert load(folder).origin.revision == load(pair).origin.revision


def test_a_model_of_one_layer_has_no_cell_number(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair", layers=1)
    named = {
        name.replace("multi_rnn_cell/cell_0/", ""): array for name, array in variables(pair).items()
    }
    write_bundle(tmp_path / "ckpt" / "model.ckpt-7", named)
    shutil.copy(pair / "options.json", tmp_path / "ckpt")
    assert load(tmp_path / "ckpt").origin.revision == load(pair).origin.revision


def test_a_zip_equals_the_folder(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "ckpt", write_pair(tmp_path / "pair"))
    archive = shutil.make_archive(str(folder), "zip", tmp_path, "ckpt")
    assert load(archive).origin == load(folder).origin


def test_the_file_checkpoint_decides_between_several(tmp_path: Path) -> None:
    old, new = write_pair(tmp_path / "old", seed=1), write_pair(tmp_path / "new")
    folder = checkpoint(tmp_path / "ckpt", new)
    write_bundle(folder / "model.ckpt-3", variables(old))
    with pytest.raises(CheckpointError, match=r"holds model\.ckpt-3\.index, model\.ckpt-7\.index"):
        load(folder)
    for named in ("model.ckpt-7", "/home/trainer/out/model.ckpt-7"):
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{named}"\n')
        assert load(folder).origin.revision == load(new).origin.revision
    assert load(folder / "model.ckpt-3.index").origin.revision == load(old).origin.revision


def test_a_dump_in_the_folder_wins(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    write_bundle(pair / "model.ckpt-7", variables(write_pair(tmp_path / "other", seed=1)))
    assert load(pair).origin.format == "allennlp"


def test_a_word_input_checkpoint_reads_its_vocabulary(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    table = np.random.default_rng(0).standard_normal((4, 4), dtype=np.float32)
    named = {name: array for name, array in variables(pair).items() if "RNN" in name}
    folder = tmp_path / "ckpt"
    write_bundle(folder / "model.ckpt-7", {**named, "lm/embedding": table})
    shutil.copy(pair / "options.json", folder)
    change_options(folder, None, char_cnn=...)
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\ncat\n")
    layers = load(folder).embed([["cat", "dog"]])[0]
    expected = torch.from_numpy(np.concatenate((table[3:1:-1], table[3:1:-1]), axis=1))
    assert torch.equal(layers[0], expected)


Damage = Callable[[Path], object]


def of_float64(folder: Path) -> None:
    named = variables(folder.parent / "pair")
    write_bundle(folder / "model.ckpt-7", {**named, BIAS: named[BIAS].astype(np.float64)})


def flipped(file: str, position: int) -> Damage:
    def damage(folder: Path) -> None:
        content = bytearray((folder / file).read_bytes())
        content[position] ^= 0x40
        (folder / file).write_bytes(content)

    return damage


def written(**options: object) -> Damage:
    return lambda f: write_bundle(f / "model.ckpt-7", variables(f.parent / "pair"), **options)  # type: ignore[arg-type]


DATA, INDEX = "model.ckpt-7.data-00000-of-00001", "model.ckpt-7.index"
BIAS = "lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/bias"
REFUSED: dict[str, tuple[Damage, str]] = {
    "snappy": (written(compression=1), "compressed"),
    "big-endian": (written(big_endian=True), "big-endian"),
    "sliced": (written(sliced=BIAS), "slices"),
    "no data": (lambda f: (f / DATA).unlink(), "cannot be read"),
    "short data": (lambda f: (f / DATA).write_bytes((f / DATA).read_bytes()[:99]), "has 99 bytes"),
    "data": (flipped(DATA, 40), "checksum"),
    "no index": (lambda f: (f / INDEX).write_bytes(b"index"), "whole index"),
    "type": (of_float64, "of type 2"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_checkpoint_is_refused_in_one_line(
    tmp_path: Path, damage: Damage, message: str
) -> None:
    folder = checkpoint(tmp_path / "ckpt", write_pair(tmp_path / "pair"))
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value) and str(folder) in str(refusal.value)


def test_two_variables_of_one_published_name_are_refused(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    named = variables(pair)
    named["tower/lm/char_embed"] = named["lm/char_embed"]
    write_bundle(tmp_path / "model.ckpt-7", named)
    shutil.copy(pair / "options.json", tmp_path)
    with pytest.raises(CheckpointError, match="lm/char_embed and tower/lm/char_embed"):
        load(tmp_path / "model.ckpt-7.index")
