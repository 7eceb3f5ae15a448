"""Aligned multilingual ELMo: mixed vectors in a space that languages share."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load, published_pair, save
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import mix, normalise
from tests.support.checkpoints import write_pair
from tests.support.reference import scalar_mix

MATRIX = np.random.default_rng(5).standard_normal((8, 8))


def aligned(folder: Path, matrix: object = MATRIX, name: str = "align.pth", **kwargs: Any) -> Path:
    """Add a matrix, a NumPy array of float64, to the folder of a pair."""
    write_pair(folder)
    torch.save(matrix, folder / name, **kwargs)
    return folder


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kind", ["array", "float32 array", "tensor", "transposed"])
def test_a_mix_times_the_transposed_matrix(tmp_path: Path, kind: str, legacy: bool) -> None:
    stored = {
        "array": MATRIX,
        "float32 array": MATRIX.astype(np.float32),
        "tensor": torch.from_numpy(MATRIX),
        "transposed": np.asfortranarray(MATRIX),
    }[kind]
    folder = aligned(
        tmp_path / "fr", stored, _use_new_zipfile_serialization=not legacy, pickle_protocol=2
    )
    elmo = load(folder)
    (layers,) = elmo.embed([["le", "chat"]])
    with torch.inference_mode():
        vectors = Encoder.of(elmo).align(mix(layers, normalise([0.5, 0.25, -1.0]), 0.75))
    expected = scalar_mix(layers.double().numpy(), [0.5, 0.25, -1.0], 0.75) @ MATRIX.T
    np.testing.assert_allclose(vectors.numpy(), expected, rtol=0, atol=1e-5)


def test_layers_and_models_without_a_matrix_are_unchanged(tmp_path: Path) -> None:
    plain, model = load(write_pair(tmp_path / "en")), load(aligned(tmp_path / "fr"))
    (one,), (two,) = plain.embed([["cat"]]), model.embed([["cat"]])
    assert torch.equal(one, two)
    assert Encoder.of(plain).align(one) is one
    assert plain.config.parameter_count == model.config.parameter_count
    assert plain.origin.revision != model.origin.revision


def test_the_matrix_is_found_by_its_ending_by_its_path_or_in_a_zip(tmp_path: Path) -> None:
    folder = aligned(tmp_path / "fr", name="fr_best_mapping.pth")
    archive = shutil.make_archive(str(folder), "zip", folder)
    places = folder, folder / "fr_best_mapping.pth", archive
    origins = [load(place).origin for place in places]
    assert {origin.format for origin in origins} == {"allennlp"}
    assert len({origin.revision for origin in origins}) == 1


def test_every_bit_is_kept_by_both_formats(tmp_path: Path) -> None:
    elmo = load(aligned(tmp_path / "fr"))
    save(elmo, tmp_path / "fr.safetensors")
    native = load(tmp_path / "fr.safetensors")
    published_pair.write(native, tmp_path / "written")
    pair = load(tmp_path / "written")
    for other in (native, pair):
        assert other.origin.revision == elmo.origin.revision and other.tasks == elmo.tasks
        assert torch.equal(other.get_parameter("alignment"), elmo.get_parameter("alignment"))
    (task,) = elmo.tasks  # the mix of the authors
    assert task.name == "aligned" and normalise(task.weights).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (MATRIX[:4], r"expected \(8, 8\)"),
        (torch.ones(1).expand(8, 8), "stores 4 bytes"),
    ],
    ids=["shape", "strides"],
)
def test_a_matrix_of_another_size_is_refused(tmp_path: Path, matrix: object, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as refusal:
        load(aligned(tmp_path / "fr", matrix))
    assert "fr/align.pth" in str(refusal.value) and "\n" not in str(refusal.value)


def test_one_of_two_matrices_is_chosen_by_its_path(tmp_path: Path) -> None:
    folder = aligned(tmp_path / "fr", name="a.pth")
    torch.save(2 * MATRIX, folder / "b.pth")
    with pytest.raises(CheckpointError, match=r"a\.pth, b\.pth"):
        load(folder)
    assert load(folder / "a.pth").origin.revision != load(folder / "b.pth").origin.revision
