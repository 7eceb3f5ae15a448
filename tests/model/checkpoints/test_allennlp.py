"""The published pair: finding, reading, refusing, writing."""

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load
from elmo_model.checkpoints.allennlp import write
from elmo_model.models.catalogue import CATALOGUE, options_of_weights
from elmo_model.models.published import Member
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
    with pytest.raises(CheckpointError, match=r"expected one options\.json: name the file itself"):
        load(folder)


def test_a_stored_row_zero_is_accepted_if_it_is_zero(tmp_path: Path) -> None:
    plain = load(write_pair(tmp_path / "plain"))
    assert same(plain, load(with_row_zero(write_pair(tmp_path / "zero"))))
    with pytest.raises(CheckpointError, match="char_embed has 262 rows and the first is not zero"):
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


def known(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Publish the weights of a pair as those of SeqVec, and take its options file away."""
    options = folder / "options.json"
    (file,) = CATALOGUE["seqvec"].files
    weights = hashlib.md5((folder / "weights.hdf5").read_bytes(), usedforsecurity=False).hexdigest()
    members = (Member("options.json", "", options.read_text()), Member("weights.hdf5", weights))
    files = (replace(file, members=members),)
    monkeypatch.setitem(CATALOGUE, "seqvec", replace(CATALOGUE["seqvec"], files=files))
    options.unlink()


def test_weights_alone_have_the_options_that_were_published_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, alone = write_pair(tmp_path / "usual"), write_pair(tmp_path / "alone")
    known(monkeypatch, alone)
    archive = tmp_path / "alone.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(alone / "weights.hdf5", "uniref50_v2/weights.hdf5")

    for place in (alone, alone / "weights.hdf5", archive):
        assert same(load(usual), load(place, known=options_of_weights))
    other = write_pair(tmp_path / "other", seed=1)
    (other / "options.json").unlink()
    with pytest.raises(CheckpointError, match=r"the MD5 of weights\.hdf5, .* is of no model whose"):
        load(other, known=options_of_weights)
    with pytest.raises(CheckpointError, match=r"holds no options\.json"):
        load(alone)


def test_the_published_options_of_seqvec_are_those_of_their_checksum() -> None:
    (file,) = CATALOGUE["seqvec"].files
    options, weights = file.members

    assert hashlib.md5(options.content.encode(), usedforsecurity=False).hexdigest() == options.md5
    assert options_of_weights(weights.md5) == options.content
