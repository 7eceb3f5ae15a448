"""Pickles of torch: tensors by name, and nothing that a pickle could run."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import ZIP_MAGIC, Source, head

# The number 0x1950a86a20f9469cfc6c, pickled, opens what torch wrote before it wrote zips.
_LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
# torch stores its zips as they are; what shrinks more than this would only fill the memory
_GREATEST_RATIO = 100


def is_pickle(path: Path) -> bool:
    """Tell whether torch wrote a file, in its old form or as a zip."""
    start = head(path, len(_LEGACY_MAGIC))
    if start == _LEGACY_MAGIC:
        return True
    if not start.startswith(ZIP_MAGIC):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist()[:100])
    except (zipfile.BadZipFile, OSError):
        return False


def read_state(source: Source, file: str) -> dict[str, Tensor]:
    """Read a state dict to the CPU. Raises CheckpointError for anything but tensors by name."""
    with source.open(file) as stream:
        values = read(stream, source.label(file))
    return state_of(values, source.label(file))


def state_of(values: object, label: str) -> dict[str, Tensor]:
    """Return a state dict for what it is. Raises CheckpointError for anything else."""
    if not isinstance(values, Mapping):
        raise CheckpointError(
            f"{label}: holds a {type(values).__name__}, expected tensors by their names"
        )
    return {name: tensor for name, tensor in values.items() if _is_named_tensor(name, tensor)}


def read(stream: BinaryIO, label: str) -> Any:
    """Read a pickle of tensors and plain values, the only ones that are let through."""
    _refuse_bombs(stream, label)
    try:
        return torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged or a hostile file provokes
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{label}: is not a pickle of tensors alone: {reason}") from error


def read_matrix(source: Source, file: str) -> Tensor:
    """Read a pickled tensor, or NumPy array, of two axes as float32."""
    label = source.label(file)
    # Arrays are let through too: what makes them runs nothing else.
    with source.open(file) as stream, torch.serialization.safe_globals(_ARRAYS):
        value = read(stream, label)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        value = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    if not isinstance(value, Tensor) or value.dim() != 2 or not value.is_floating_point():
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
        raise CheckpointError(
            f"{label}: holds a {type(value).__name__}{shape}, expected a matrix of real numbers"
        )
    if value.nbytes > value.untyped_storage().nbytes():
        raise CheckpointError(f"{label}: stores less than {value.nbytes:,} bytes, as expected")
    return value.detach().to(torch.float32).contiguous()


# What NumPy pickles an array of real numbers by, under the names of NumPy 1 and 2.
_MAKER = np.empty(0).__reduce__()[0]
_ARRAYS: list[Any] = [
    (_MAKER, "numpy.core.multiarray._reconstruct"),
    (_MAKER, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    type(np.dtype(np.float64)),
    type(np.dtype(np.float32)),
]


def _is_named_tensor(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, Tensor)


def _refuse_bombs(stream: BinaryIO, label: str) -> None:
    start = stream.read(len(ZIP_MAGIC))
    stream.seek(0)
    if start != ZIP_MAGIC:
        return
    try:
        with zipfile.ZipFile(stream) as archive:
            for entry in archive.infolist():
                if entry.file_size > _GREATEST_RATIO * max(entry.compress_size, 1):
                    raise CheckpointError(
                        f"{label}: {entry.filename} unpacks to {entry.file_size:,} bytes from "
                        f"{entry.compress_size:,}, expected at most {_GREATEST_RATIO} times as many"
                    )
    except (zipfile.BadZipFile, OSError) as error:
        raise CheckpointError(f"{label}: is not a readable zip: {error}") from error
    stream.seek(0)
