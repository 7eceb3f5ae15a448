"""The published pair: finding, reading, refusing, writing."""

import json
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load
from elmo_model.checkpoints.published_pair import write
from elmo_model.network.elmo import ElmoNetwork
from tests.support import golden
from tests.support.checkpoints import poisoned, read_pair, with_dataset, with_row_zero, write_pair


def same(one: ElmoNetwork, other: ElmoNetwork) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)


def test_a_folder_either_file_and_a_zip_are_the_same_network(tmp_path: Path) -> None:
    folder = write_pair(
        tmp_path / "model", options_name="elmo_x_options.json", weights_name="elmo_x_weights.hdf5"
    )
    archive = tmp_path / "model.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(folder / "elmo_x_options.json", "210/elmo_x_options.json")
        file.write(folder / "elmo_x_weights.hdf5", "210/elmo_x_weights.hdf5")
        file.writestr("__MACOSX/210/._elmo_x_options.json", "shadow")
        file.writestr("210/vocab.txt", "the\n")
    networks = [
        load(place)
        for place in (
            folder,
            str(folder),
            folder / "elmo_x_options.json",
            folder / "elmo_x_weights.hdf5",
            archive,
        )
    ]
    assert all(same(networks[0], network) for network in networks)
    assert {network.origin for network in networks} == {networks[0].origin}
    assert (networks[0].origin.name, networks[0].origin.format) == ("elmo_x", "allennlp")


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ("options.json", "model.hdf5"),
        ("options.json", "some.hdf5"),
        ("elmo_2x_options.json", "elmo_2x_weights_PubMed_only.hdf5"),
        ("options_file", "weights_file"),  # in the cache of bio_embeddings
    ],
)
def test_common_file_names_are_found(tmp_path: Path, options: str, weights: str) -> None:
    folder = write_pair(tmp_path / "bundle", options_name=options, weights_name=weights)
    expected = load(write_pair(tmp_path / "plain"))
    for place in (folder, folder / options, folder / weights):
        assert same(load(place), expected)
        assert load(place).origin.name == ("elmo_2x" if "2x" in options else "bundle")


def test_one_of_two_pairs_is_chosen_by_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    for seed, name in enumerate(("a", "b")):
        write_pair(
            folder,
            seed=seed,
            options_name=f"{name}_options.json",
            weights_name=f"{name}_weights.hdf5",
        )
    assert not same(load(folder / "a_options.json"), load(folder / "b_weights.hdf5"))
    assert same(load(folder / "b_options.json"), load(folder / "b_weights.hdf5"))
    with pytest.raises(CheckpointError, match="expected one"):
        load(folder)


def test_a_stored_row_zero_is_accepted_if_it_is_zero(tmp_path: Path) -> None:
    plain = load(write_pair(tmp_path / "plain"))
    assert same(plain, load(with_row_zero(write_pair(tmp_path / "zero"))))
    with pytest.raises(CheckpointError, match="262 rows"):
        load(with_row_zero(write_pair(tmp_path / "one"), 1.0))


def test_a_word_table_of_a_character_model_is_ignored(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "model")
    with_dataset(folder, "embedding", np.zeros((5, 4), dtype=np.float32))
    assert same(load(folder), load(write_pair(tmp_path / "plain")))


def test_a_stored_projection_between_equal_sizes_is_used(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "model", cell=4, projection=4, filters=((1, 2), (2, 2)))
    bare = load(folder)
    assert bare.config.char_cnn is not None
    assert not bare.config.char_cnn.projection and not bare.config.lstm.projected
    with_dataset(folder, "CNN_proj/W_proj", 2 * np.eye(4, dtype=np.float32))
    with_dataset(folder, "CNN_proj/b_proj", np.zeros(4, dtype=np.float32))
    doubled = load(folder)
    torch.testing.assert_close(doubled.embed([["a"]])[0][0], 2 * bare.embed([["a"]])[0][0])


def test_nan_in_the_weights_is_loaded_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert load(poisoned(write_pair(tmp_path / "model"))).embed([["a"]])[0].isnan().any()
    assert "model: token_embedder.char_cnn.projection.bias holds NaN" in caplog.text


def test_the_revision_depends_on_numbers_and_configuration(tmp_path: Path) -> None:
    revisions = {
        load(write_pair(tmp_path / "a")).origin.revision,
        load(write_pair(tmp_path / "b", seed=1)).origin.revision,
        load(write_pair(tmp_path / "c", skip=False)).origin.revision,
    }
    assert len(revisions) == 3 and all(len(revision) == 12 for revision in revisions)
    assert load(write_pair(tmp_path / "d")).origin.revision in revisions


# Writing.


def test_the_golden_pair_is_written_bit_for_bit(tmp_path: Path) -> None:
    write(load(golden.SMALL), tmp_path)
    _, stored = read_pair(golden.SMALL)
    options, written = read_pair(tmp_path)
    assert options == json.loads((golden.SMALL / "options.json").read_text())
    assert all(stored[name].tobytes() == written[name].tobytes() for name in stored)


def test_a_plain_pair_takes_the_place_of_an_aligned_one(tmp_path: Path) -> None:
    folder, plain = write_pair(tmp_path / "fr"), load(write_pair(tmp_path / "en", seed=1))
    torch.save(torch.eye(8), folder / "align.pth")
    write(load(folder), tmp_path / "written")
    write(plain, tmp_path / "written")
    written = load(tmp_path / "written")
    assert same(written, plain) and written.config == plain.config


def test_weights_without_options_name_the_file_and_a_way_to_it(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "alone")
    (folder / "options.json").unlink()

    for place in (folder, folder / "weights.hdf5"):
        with pytest.raises(CheckpointError, match=r"options\.json.*`elmo download seqvec`"):
            load(place)


def test_token_vectors_beside_a_pair_are_not_read(tmp_path: Path) -> None:
    usual, folder = write_pair(tmp_path / "usual"), write_pair(tmp_path / "with_vectors")
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "w") as file:
        file["embedding"] = np.zeros((3, 4), np.float32)

    assert same(load(usual), load(folder))
