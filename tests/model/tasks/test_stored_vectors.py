"""`elmo fit` on vectors that `elmo embed --all` stored before."""

import errno
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_model.tasks.examples import FitError
from elmo_model.tasks.stored_vectors import open_stored_vectors
from tests.support.checkpoints import write_pair
from tests.support.command_line import elmo
from tests.support.servers import SMALL

SENTENCES = [f"{first} cat sat {second}" for first in ("The", "a") for second in "abcdefgh"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with labels and the vectors of all sentences."""
    path = tmp_path_factory.mktemp("stored")
    rows = [f"{text.split()[0]}\t{text}" for text in SENTENCES]
    (path / "train.tsv").write_text("\n".join(["label\tsentence", *rows, ""]))
    (path / "text.txt").write_text("\n".join([*SENTENCES, ""]))
    made = elmo("embed", path / "text.txt", path / "v.hdf5", "--all", "--model", SMALL)
    assert made.exit_code == 0, made.output
    return path


def fitted(folder: Path, out: Path, *more: object) -> dict[str, object]:
    result = elmo(
        *("fit", "first", "--kind", "sentence", "--train", folder / "train.tsv", "--seeds", 1),
        *("--model", SMALL, "--out", out, *more),
    )
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads((out / "first.json").read_text())
    return found


def test_stored_vectors_give_the_task_that_computed_ones_give(folder: Path, tmp_path: Path) -> None:
    stored = fitted(folder, tmp_path / "1", "--vectors", folder / "v.hdf5")
    computed = fitted(folder, tmp_path / "2")

    assert stored["weights"] == pytest.approx(computed["weights"], abs=1e-3)
    assert stored["gamma"] == pytest.approx(computed["gamma"], abs=1e-3)
    assert stored["revision"] == computed["revision"]


def test_a_file_that_does_not_fit_is_refused(folder: Path, tmp_path: Path) -> None:
    arguments: list[object] = ["fit", "x", "--kind", "sentence", "--train", folder / "train.tsv"]
    arguments += ["--out", tmp_path, "--seeds", 1, "--model", SMALL, "--vectors"]

    def refusal(path: Path, *more: object) -> str:
        result = elmo(*arguments, path, *more)
        assert result.exit_code == (2 if more else 1)
        return result.output

    (tmp_path / "one.txt").write_text(SENTENCES[0] + "\n")
    elmo("embed", tmp_path / "one.txt", tmp_path / "one.hdf5", "--all", "--model", SMALL)
    elmo("embed", tmp_path / "one.txt", tmp_path / "top.hdf5", "--top", "--model", SMALL)
    assert "has no vectors of the sentence 'The cat sat b'" in refusal(tmp_path / "one.hdf5")
    assert "as elmo embed --all writes them" in refusal(tmp_path / "top.hdf5")
    assert "cannot be read as HDF5" in refusal(folder / "train.tsv")
    assert "counts the boundary tokens" in refusal(folder / "v.hdf5", "--layer-norm")
    with h5py.File(tmp_path / "no.hdf5", "w") as file:
        file.create_dataset("0", data=[[[0.0]]])
    assert "has no sentence_to_index" in refusal(tmp_path / "no.hdf5")
    with h5py.File(tmp_path / "model.hdf5", "w") as file:
        file.create_dataset("CNN/W_cnn_0", data=[[[0.0]]])
    assert "as elmo embed --all writes them" in refusal(tmp_path / "model.hdf5")
    other = write_pair(tmp_path / "other", seed=1, cell=64, projection=16)
    elmo("embed", folder / "text.txt", tmp_path / "other.hdf5", "--all", "--model", other)
    assert "are not those of this model" in refusal(tmp_path / "other.hdf5")
    with h5py.File(tmp_path / "no-text.hdf5", "w") as file:
        file.create_dataset("sentence_to_index", data=["{}"])
    assert "holds no vectors" in refusal(tmp_path / "no-text.hdf5")
    with h5py.File(tmp_path / "no-vectors.hdf5", "w") as file:
        file.create_group("a group")
    assert "holds no vectors" in refusal(tmp_path / "no-vectors.hdf5")


def test_sentences_as_keys_are_found_too(folder: Path, tmp_path: Path) -> None:
    flags = ("--all", "--use-sentence-keys", "--model", SMALL)
    elmo("embed", folder / "text.txt", tmp_path / "keys.hdf5", *flags)
    (tmp_path / "slash.txt").write_text("A cat and/or a dog\n")
    elmo("embed", tmp_path / "slash.txt", tmp_path / "slash.hdf5", *flags)

    with open_stored_vectors(tmp_path / "slash.hdf5") as stored:
        (slashed,) = stored.encode([["A", "cat", "and/or", "a", "dog"]])
    with open_stored_vectors(tmp_path / "keys.hdf5") as stored:
        (layers,) = stored.encode([SENTENCES[0].split()])
        with pytest.raises(FitError, match="has no vectors of the sentence 'none'"):
            stored.encode([["none"]])

    assert slashed.shape[1] == 7
    assert layers.shape[1] == 6 and not layers[:, 0].any() and layers[:, 1].any()


@pytest.mark.parametrize(
    ("index", "vectors", "fault"),
    [
        ('{"a b": "7"}', np.zeros((3, 2, 4)), "lacks the dataset '7', which sentence_to_index"),
        ("{", np.zeros((3, 2, 4)), "sentence_to_index is not JSON: Expecting"),
        ("[" * 10_000, np.zeros((3, 2, 4)), "sentence_to_index is not JSON"),
        ("[1]", np.zeros((3, 2, 4)), r"sentence_to_index is \[1\], expected an object"),
        ('{"a b": "0"}', np.zeros((3, 3, 4)), r"are \(3, 3, 4\) of float64, expected \(layers, 2,"),
        ('{"a b": "0"}', np.array(["x"]).astype("S1"), r"are \(1,\) of \|S1, expected"),
        ('{"a b": "0"}', np.zeros((3, 2, 4), int), "of int64, expected .* of floats"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, index: str, vectors: object, fault: str) -> None:
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file.create_dataset("sentence_to_index", data=[index])
        file.create_dataset("0", data=vectors)

    with (
        pytest.raises(FitError, match=f"^{tmp_path}/v.hdf5: .*{fault}"),
        open_stored_vectors(tmp_path / "v.hdf5") as stored,
    ):
        stored.encode([["a", "b"]])


def test_an_index_that_is_a_group_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file.create_group("sentence_to_index")

    with (
        pytest.raises(FitError, match=r"v\.hdf5: cannot be read as HDF5"),
        open_stored_vectors(tmp_path / "v.hdf5"),
    ):
        pass


def test_errors_of_the_body_are_not_those_of_the_file(folder: Path) -> None:
    """Such as a full disk under the temporary vectors of a fit."""
    with (
        pytest.raises(OSError, match="No space left on device"),
        open_stored_vectors(folder / "v.hdf5"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_vectors_with_carried_state_are_of_the_model(folder: Path, tmp_path: Path) -> None:
    """The state changes the upper layers alone: the files of AllenNLP were written so."""
    made = elmo(
        *("embed", folder / "text.txt", tmp_path / "v.hdf5", "--all", "--carry-state"),
        *("--model", SMALL),
    )
    assert made.exit_code == 0, made.output

    assert fitted(folder, tmp_path / "out", "--vectors", tmp_path / "v.hdf5")["weights"]
