"""Pickles of torch: tensors alone are read, nothing is run, a refusal is one line."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.pickles import read, read_matrix, read_state
from elmo_model.checkpoints.source import Source, in_folder


class Payload:
    """Unpickled without protection, this makes the folder `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.mkdir, (self.path,)


@pytest.mark.parametrize("is_legacy", [False, True])
@pytest.mark.parametrize("read_file", [read_state, read_matrix])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_payload_is_not_run_and_named(
    tmp_path: Path, is_legacy: bool, read_file: Callable[[Source, str], object], is_array: bool
) -> None:
    path, payload = tmp_path / "weights.th", Payload(tmp_path / "made")
    torch.save(
        np.array([payload, payload]) if is_array else {"weight": payload},
        path,
        _use_new_zipfile_serialization=not is_legacy,
    )

    with pytest.raises(CheckpointError) as refusal:
        read_file(in_folder(tmp_path), path.name)

    message = str(refusal.value)
    assert message.startswith(f"{path}: is not a pickle of tensors alone: ")
    assert is_array or "it calls for " in message
    assert "weights_only" not in message and "\n" not in message and len(message) < 300
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Payload(Path("made"))),
        pickle.dumps({"a": 1}),
        b"",
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        b"\x80\x05K\x01.",
        b"not a pickle",
    ],
)
def test_no_refusal_advises_to_load_without_protection(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^label: ") as refusal:
        read(io.BytesIO(content), "label")

    message = str(refusal.value)
    assert "weights_only" not in message and "Weights only" not in message
    assert "\n" not in message and len(message) < 300


def test_only_named_tensors_are_kept(tmp_path: Path) -> None:
    source, state = in_folder(tmp_path), {"a": torch.ones(2), "epoch": 3, 7: torch.ones(2)}
    for values in (state, {"epoch": 3, "state_dict": state}, {"model": state, "loss": [1]}):
        torch.save(values, tmp_path / "a.th")
        assert read_state(source, "a.th").keys() == {"a"}
    torch.save([1, 2], tmp_path / "a.th")
    with pytest.raises(CheckpointError, match="a list"):
        read_state(source, "a.th")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_matrix_is_a_tensor_or_an_array(tmp_path: Path, dtype: str, is_array: bool) -> None:
    matrix = np.arange(6).reshape(2, 3).astype(dtype)
    torch.save(matrix if is_array else torch.from_numpy(matrix), tmp_path / "align.pth")

    np.testing.assert_array_equal(read_matrix(in_folder(tmp_path), "align.pth").numpy(), matrix)


@pytest.mark.parametrize("value", ["text", [1.0], {"a": torch.ones(2, 2)}, np.ones((2, 2), int)])
def test_another_value_is_no_matrix(tmp_path: Path, value: object) -> None:
    torch.save(value, tmp_path / "align.pth")

    with pytest.raises(CheckpointError, match="align"):
        read_matrix(in_folder(tmp_path), "align.pth")
