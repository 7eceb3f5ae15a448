"""The table of formats: its order, the folder of a run, paths that are no checkpoint."""

import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from elmo_model.checkpoints import CheckpointError, load, load_pair, native, read
from elmo_model.checkpoints.checkpoint import tensors_of
from tests.support import golden
from tests.support.checkpoints import write_pair
from tests.support.files import closed

GOLDEN = golden.GOLDEN


def test_a_folder_with_a_pair_and_a_native_file_is_native(tmp_path: Path) -> None:
    run = write_pair(tmp_path / "run", seed=1)
    other = load(write_pair(tmp_path / "other", seed=2))
    native.save(other, run / native.RUN_FILE)

    assert load(run).origin.revision == other.origin.revision
    assert load(run).origin.format == "native"


def test_a_bundle_of_nlpl_is_a_published_pair(tmp_path: Path) -> None:
    """The files of a run of bilm-tf and a vocabulary lie beside it."""
    folder = write_pair(tmp_path / "210", n_characters=261, weights_name="model.hdf5")
    for name in ("README", "meta.json", "vocab.txt.gz", "checkpoint"):
        (folder / name).write_text('model_checkpoint_path: "model.ckpt-7"')
    archive = shutil.make_archive(str(folder), "zip", folder)
    published = load(write_pair(tmp_path / "published"))

    for place in (folder, archive):
        origin = load(place).origin
        assert (origin.name, origin.format) == ("210", "allennlp")
        assert origin.revision == published.origin.revision


def test_a_damaged_native_file_in_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    run = write_pair(tmp_path / "run")
    native.save(load(run), run / native.RUN_FILE)
    content = (run / native.RUN_FILE).read_bytes()
    (run / native.RUN_FILE).write_bytes(content[:-10])

    with pytest.raises(CheckpointError, match="is not a whole"):
        load(run)


def test_a_run_before_its_end_is_explained(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")

    with pytest.raises(CheckpointError, match="elmo train"):
        read(tmp_path)


def test_paths_without_a_checkpoint_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("nothing here")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as file:
        file.writestr("a.jpg", "")

    for name in ("notes.txt", "photos.zip", "empty"):
        with pytest.raises(CheckpointError, match="format"):
            load(tmp_path / name)
    with pytest.raises(CheckpointError, match="No such file"):
        load(tmp_path / "nowhere")


def test_a_path_that_cannot_be_looked_up_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "model.safetensors"):
        with (
            closed(tmp_path),
            pytest.raises(CheckpointError, match="Permission"),
        ):
            load(path)


def test_a_built_network_shares_the_tensors(tmp_path: Path) -> None:
    checkpoint = read(write_pair(tmp_path / "pair"))

    elmo = checkpoint.build()

    for name, tensor in elmo.state_dict().items():
        assert tensor.data_ptr() == checkpoint.tensors[name].data_ptr()
        assert tensor.shape == tensors_of(checkpoint.config, checkpoint.alphabet)[name].shape
    assert not elmo.training


def test_two_files_anywhere_are_a_pair(tmp_path: Path) -> None:
    pair = write_pair(tmp_path / "pair")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    options = shutil.copy(pair / "options.json", tmp_path / "a" / "settings.json")
    weights = shutil.copy(pair / "weights.hdf5", tmp_path / "b" / "numbers.h5")

    found, expected = load_pair(options, weights), load(pair)

    assert found.origin.revision == expected.origin.revision
    assert found.origin.name == "a"


@pytest.mark.parametrize("missing", ["options.json", "weights.hdf5"])
def test_a_missing_file_of_two_is_named(tmp_path: Path, missing: str) -> None:
    pair = write_pair(tmp_path / "pair")
    (pair / missing).unlink()

    with pytest.raises(CheckpointError, match=missing):
        load_pair(pair / "options.json", pair / "weights.hdf5")


def archive_of(folder: Path, path: Path) -> Path:
    """Write the files of a folder to a zip or a gzipped tar."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for each in folder.iterdir():
                if each.suffix in (".dic", ".json", ".pkl", ".hdf5"):
                    file.write(each, each.name)
    else:
        with tarfile.open(path, "w:gz") as tar:
            tar.add(folder, arcname=".")
    return path


def whole(kind: str, folder: Path) -> Path:
    """Write a sound checkpoint; return the file of it that is to be damaged."""
    pair = write_pair(folder / "pair")
    native.save(load(pair), folder / "a.safetensors")
    shutil.copytree(GOLDEN / "tensorflow" / "bilm_tf", folder / "bilm")
    languages = GOLDEN / "elmoformanylangs" / "char_only"
    return {
        "native": folder / "a.safetensors",
        "options": pair / "options.json",
        "weights": pair / "weights.hdf5",
        "index": folder / "bilm" / "model.ckpt-6.index",
        "pair.zip": archive_of(pair, folder / "pair.zip"),
        "elmoformanylangs.zip": archive_of(languages, folder / "model.zip"),
        "hub.tar.gz": archive_of(GOLDEN / "tensorflow" / "tf_hub", folder / "hub.tar.gz"),
    }[kind]


def damaged(content: bytes, drawn: random.Random) -> bytes:
    """Change, drop or scramble a few bytes, the last ones more often than others."""
    changed = bytearray(content)
    for _ in range(drawn.choice((1, 1, 3, 10))):
        place = drawn.randrange(len(changed))
        match drawn.randrange(4):
            case 0 | 1:
                changed[place] = drawn.randrange(256)
            case 2 if len(changed) > 200:
                del changed[place : place + drawn.choice((1, 4, 100))]
            case _:
                place = max(0, len(changed) - drawn.randrange(1, 600))
                changed[place : place + 2] = drawn.randbytes(2)
    return bytes(changed)


@pytest.mark.parametrize(
    "kind",
    ["native", "options", "weights", "pair.zip", "elmoformanylangs.zip", "hub.tar.gz", "index"],
)
def test_damage_of_any_kind_is_read_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    path, drawn = whole(kind, tmp_path), random.Random(kind)
    content = path.read_bytes()

    for _ in range(60):
        path.write_bytes(damaged(content, drawn))
        try:
            read(path)
        except CheckpointError as refusal:
            assert "\n" not in str(refusal)
