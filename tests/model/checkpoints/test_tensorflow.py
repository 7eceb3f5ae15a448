"""TensorFlow's checkpoints without TensorFlow: those of bilm-tf, and modules of TensorFlow Hub.

The golden ones were saved by TensorFlow 2.21 from the weights of `golden/bilm_training/char`.
"""

import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, allennlp, load, read, save
from elmo_model.checkpoints.crc32c import crc32c
from elmo_model.checkpoints.source import FolderSource
from elmo_model.checkpoints.tensor_bundle import open_bundle
from tests.support import golden
from tests.support.checkpoints import change_options, read_pair, write_pair
from tests.support.tensor_bundle import Array, masked, write_bundle

HOME = golden.GOLDEN / "tensorflow"
TRAINED = golden.GOLDEN / "bilm_training" / "char"
SENTENCES = [["The", "cat"], [], ["naïve", "x" * 40]]


@pytest.fixture
def dumped(tmp_path: Path) -> Path:
    """The pair that bilm-tf's own dump_weights made of the same weights."""
    folder = tmp_path / "dumped"
    folder.mkdir()
    shutil.copy(TRAINED / "options.json", folder / "options.json")
    shutil.copy(TRAINED / "dumped_init.hdf5", folder / "weights.hdf5")
    return folder


def variables(folder: Path) -> dict[str, Array]:
    """Return a pair's datasets under the names that bilm-tf's training gives its variables."""
    _, weights = read_pair(folder)
    cells = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    named: dict[str, Array] = {}
    for name, array in weights.items():
        parts = name.split("/")
        if parts[0].startswith("RNN"):
            cell = parts[3].replace("Cell", "cell_")
            name = f"{parts[0]}/rnn/multi_rnn_cell/{cell}/lstm_cell/{cells[parts[5]]}"  # noqa: PLW2901
        named[f"lm/{name}"] = array
        named[f"lm/{name}/Adagrad"] = np.ones_like(array)
    named["lm/softmax/W"] = np.zeros((9, 4), np.float32)
    named["global_step"] = np.array(7, np.int64)
    return named


def checkpoint(folder: Path, pair: Path, **options: int) -> Path:
    """Write the checkpoint that the training of a pair would have left."""
    write_bundle(folder / "model.ckpt-7", variables(pair), **options)  # type: ignore[arg-type]
    shutil.copy(pair / "options.json", folder / "options.json")
    return folder


# bilm-tf


def test_a_checkpoint_by_tensorflow_is_bilm_tf_s_own_dump_to_the_bit(dumped: Path) -> None:
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
def test_a_checkpoint_by_another_writer_is_the_pair(
    tmp_path: Path, shape: dict[str, int], shards: int
) -> None:
    pair = write_pair(tmp_path / "pair", **shape)  # type: ignore[arg-type]
    folder = checkpoint(tmp_path / "ckpt", pair, shards=shards)
    assert load(folder).origin.revision == load(pair).origin.revision


def test_a_model_of_one_layer_has_no_number_for_it(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair", layers=1)
    named = {
        name.replace("multi_rnn_cell/cell_0/", ""): array for name, array in variables(pair).items()
    }
    write_bundle(tmp_path / "ckpt" / "model.ckpt-7", named)
    shutil.copy(pair / "options.json", tmp_path / "ckpt")
    assert load(tmp_path / "ckpt").origin.revision == load(pair).origin.revision


def test_a_zip_of_a_checkpoint_is_the_folder(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "ckpt", write_pair(tmp_path / "pair"))
    archive = tmp_path / "ckpt.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in folder.iterdir():
            file.write(path, f"model/{path.name}")
    assert load(archive).origin == load(folder).origin


def test_the_file_called_checkpoint_names_the_one_of_several(tmp_path: Path) -> None:
    old, new = write_pair(tmp_path / "old", seed=1), write_pair(tmp_path / "new")
    folder = checkpoint(tmp_path / "ckpt", new)
    write_bundle(folder / "model.ckpt-3", variables(old))
    with pytest.raises(CheckpointError, match=r"holds model\.ckpt-3\.index, model\.ckpt-7\.index"):
        load(folder)
    for named in ("model.ckpt-7", "/home/trainer/out/model.ckpt-7"):
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{named}"\n')
        assert load(folder).origin.revision == load(new).origin.revision
    assert load(folder / "model.ckpt-3.index").origin.revision == load(old).origin.revision


def test_a_dump_beside_a_checkpoint_wins(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    write_bundle(pair / "model.ckpt-7", variables(write_pair(tmp_path / "other", seed=1)))
    assert load(pair).origin.format == "allennlp"


def test_a_checkpoint_of_a_model_of_words_takes_its_vocabulary(tmp_path: Path) -> None:
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


def test_both_formats_of_ours_hold_what_tensorflow_saved(tmp_path: Path) -> None:
    elmo = load(HOME / "bilm_tf")
    save(elmo, tmp_path / "a.safetensors")
    allennlp.write(elmo, tmp_path / "pair")
    for place in ("a.safetensors", "pair"):
        assert load(tmp_path / place).origin.revision == elmo.origin.revision


Damage = Callable[[Path], object]


def rewritten(name: str, change: Callable[[Array], Array | None]) -> Damage:
    def damage(folder: Path) -> None:
        named = variables(folder.parent / "pair")
        array = change(named.pop(name))
        if array is not None:
            named[name] = array
        write_bundle(folder / "model.ckpt-7", named)

    return damage


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
    "snappy": (written(compression=1), "a block is compressed by snappy, expected no compression"),
    "other": (written(compression=9), "a block is compressed by number 9, expected no"),
    "big-endian": (written(big_endian=True), r"\.index: is big-endian, expected little-endian"),
    "sliced": (written(sliced=BIAS), "bias is cut into slices, expected one piece"),
    "no data": (
        lambda f: (f / DATA).unlink(),
        r"data-00000-of-00001: does not exist, expected the data",
    ),
    "short data": (
        lambda f: (f / DATA).write_bytes((f / DATA).read_bytes()[:99]),
        r"data-00000-of-00001: has 99 bytes, expected lm/.* up to byte",
    ),
    "data": (flipped(DATA, 40), r"data-00000-of-00001: lm/.* has another checksum than expected"),
    "index": (flipped(INDEX, 30), "not a whole index of TensorFlow: a block has another checksum"),
    "short index": (
        lambda f: (f / INDEX).write_bytes((f / INDEX).read_bytes()[-200:]),
        "is not a whole index of TensorFlow: a block",
    ),
    "no index": (
        lambda f: (f / INDEX).write_bytes(b"index"),
        "is not a whole index of TensorFlow: it does not end as a table does",
    ),
    "missing": (
        rewritten(BIAS, lambda _: None),
        r"index: RNN_0/.*/B is missing, expected shape \(32,\) by lstm\.n_layers in .*options",
    ),
    "shape": (
        rewritten(BIAS, lambda bias: bias[:-1]),
        r"LSTMCell/B has shape \(31,\), expected \(32,\) by lstm\.dim in .*options\.json",
    ),
    "type": (
        rewritten(BIAS, lambda bias: bias.astype(np.float64)),
        "bias is of type float64, expected float32",
    ),
    "layers": (
        lambda f: change_options(f, "lstm", n_layers=1),
        r"Cell1/LSTMCell/B is found, but not expected: lstm\.n_layers is 1 in",
    ),
    "no options": (lambda f: (f / "options.json").unlink(), r"holds no options\.json"),
}


@pytest.mark.parametrize(("damage", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_whole_is_refused_in_one_line(
    tmp_path: Path, damage: Damage, message: str
) -> None:
    folder = checkpoint(tmp_path / "ckpt", write_pair(tmp_path / "pair"))
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value) and str(folder) in str(refusal.value)


def test_two_variables_for_one_place_are_refused(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    named = variables(pair)
    named["tower/lm/char_embed"] = named["lm/char_embed"]
    write_bundle(tmp_path / "model.ckpt-7", named)
    shutil.copy(pair / "options.json", tmp_path)
    match = "holds lm/char_embed and tower/lm/char_embed, expected one char_embed"
    with pytest.raises(CheckpointError, match=match):
        load(tmp_path / "model.ckpt-7.index")


# TensorFlow Hub


def test_a_module_by_tensorflow_is_the_same_network(dumped: Path) -> None:
    module, pair = read(HOME / "tf_hub"), read(dumped)
    assert (module.name, module.format) == ("tf_hub", "tf-hub")
    assert module.tensors.keys() == pair.tensors.keys()
    for name, tensor in pair.tensors.items():
        assert torch.equal(module.tensors[name], tensor), name
    assert module.config.lstm == pair.config.lstm
    (note,) = module.notes
    assert "says no rules; clips of 3, relu and 50 characters a token were taken" in note


def test_the_aggregation_of_a_module_is_a_task() -> None:
    (task,) = load(HOME / "tf_hub").tasks
    assert (task.name, task.weights, task.gamma) == ("elmo", (0.25, -0.5, 1.0), 1.5)


def test_a_module_is_read_from_its_archive_and_its_variables(tmp_path: Path) -> None:
    expected = load(HOME / "tf_hub")
    archive = tmp_path / "elmo_2.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(HOME / "tf_hub", arcname=".")
    for place in (archive, HOME / "tf_hub" / "variables"):
        elmo = load(place)
        assert elmo.origin.revision == expected.origin.revision and elmo.tasks == expected.tasks
    assert load(archive).origin.name == "elmo_2"


def test_a_module_of_something_else_says_what_was_expected(tmp_path: Path) -> None:
    folder = tmp_path / "use"
    write_bundle(folder / "variables" / "variables", {"Embeddings": np.zeros((3, 2), np.float32)})
    match = r"RNN_0/.*/B is missing, expected a variable of 1 axes"
    with pytest.raises(CheckpointError, match=match):
        load(folder)


def test_an_aggregation_of_other_layers_is_refused(tmp_path: Path, dumped: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    named = {name.replace("lm/", "bilm/", 1): a for name, a in variables(pair).items()}
    named["aggregation/weights"] = np.zeros(4, np.float32)
    named["aggregation/scaling"] = np.zeros((), np.float32)
    write_bundle(tmp_path / "module" / "variables" / "variables", named)
    with pytest.raises(CheckpointError, match="aggregation/weights has 4 numbers, expected 3"):
        load(tmp_path / "module")


def test_a_module_in_an_archive_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(HOME / "tf_hub", arcname=".")
    path = tmp_path / "elmo.tar.gz"
    path.write_bytes(buffer.getvalue()[:-3000])
    with pytest.raises(CheckpointError, match=r"elmo\.tar\.gz: is not a whole tar archive"):
        load(path)


# The checksum


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
    ids=["digits", "zeros", "ones", "rising"],
)
def test_checksums_are_those_of_rfc_3720(content: bytes, expected: int) -> None:
    assert crc32c(content) == expected


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 9216, 70_001])
def test_checksums_of_any_size_are_those_taken_byte_by_byte(size: int) -> None:
    content = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    value = crc32c(content)
    assert (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF == masked(content)


def test_a_wrong_bit_anywhere_in_the_index_is_noticed(tmp_path: Path) -> None:
    index = write_bundle(tmp_path / "model.ckpt-7", variables(write_pair(tmp_path / "pair")))
    whole, source = index.read_bytes(), FolderSource(tmp_path)
    with open_bundle(source, index.name) as bundle:
        entries = bundle.entries
    unnoticed = 0
    for position in range(0, len(whole), 11):
        broken = bytearray(whole)
        broken[position] ^= 0x81
        index.write_bytes(broken)
        try:
            with open_bundle(source, index.name) as bundle:
                assert bundle.entries == entries
                unnoticed += 1
        except CheckpointError as refusal:
            assert "is not a whole index" in str(refusal) or "is compressed by" in str(refusal)
    # Only what no reader needs: the padding of the footer, and the block of no statistics.
    assert unnoticed <= 48 // 11 + 2
