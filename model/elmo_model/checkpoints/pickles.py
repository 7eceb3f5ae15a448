"""Pickles of torch: tensors by name, read without running any code that a pickle may hold."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import ZIP_MAGIC, Source, head, open_zip, refuse_bomb

# torch files from before version 1.6 begin with the number 0x1950a86a20f9469cfc6c, pickled.
_LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def is_pickle(path: Path) -> bool:
    """Return whether torch wrote a file, in its old form or as a zip."""
    start = head(path, len(_LEGACY_MAGIC))
    if start == _LEGACY_MAGIC:
        return True
    if not start.startswith(ZIP_MAGIC):
        return False
    try:
        with open_zip(path, str(path)) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist()[:100])
    except CheckpointError:
        return False


def read_state(source: Source, file: str) -> dict[str, Tensor]:
    """Read a state dict to the CPU, which may lie below one of two usual names.

    Raises CheckpointError for anything but tensors by name.
    """
    label = source.label(file)
    with source.open(file) as stream:
        values = read(stream, label)
    if isinstance(values, Mapping):
        below = [values[name] for name in ("state_dict", "model") if name in values]
        values = next((each for each in below if isinstance(each, Mapping)), values)
    if not isinstance(values, Mapping):
        raise CheckpointError(
            f"{label}: holds a {type(values).__name__}, expected tensors by their names"
        )
    named = {name: value for name, value in values.items() if isinstance(name, str)}
    return {name: value for name, value in named.items() if isinstance(value, Tensor)}


def read(stream: BinaryIO, label: str) -> Any:
    """Read a pickle that holds tensors and plain values alone; anything else is refused unrun.

    Raises CheckpointError. The message never repeats torch's advice to load without protection.
    """
    _refuse_bombs(stream, label)
    try:
        return torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file can raise almost anything
        raise CheckpointError(
            f"{label}: is not a pickle of tensors alone: {_reason(error)}; expected tensors "
            f"that torch.save wrote"
        ) from error


def read_matrix(source: Source, file: str) -> Tensor:
    """Read a pickled tensor or NumPy array of floats. Raises CheckpointError."""
    label = source.label(file)
    # The globals that NumPy arrays need are allowed as well; they create arrays and nothing else.
    with source.open(file) as stream, torch.serialization.safe_globals(_ARRAYS):
        value = read(stream, label)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        value = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))
    if not isinstance(value, Tensor):
        raise CheckpointError(f"{label}: holds a {type(value).__name__}, expected a matrix")
    return value


# The globals in a pickled array of real numbers; NumPy 1 and 2 name the first one differently.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ARRAYS: list[Any] = [
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    (_RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    type(np.dtype(np.float64)),
    type(np.dtype(np.float32)),
    type(np.dtype(np.float16)),
]


def _reason(error: Exception) -> str:
    """Return why torch refused a pickle, in words of our own.

    torch's text names the refused global, and then explains how to run the pickle nevertheless.
    """
    text = " ".join(str(error).split())
    if refused := re.search(r"\bGLOBAL ([\w.]+)", text):
        return f"it calls for {refused[1]:.80}"
    if "eights only load failed" in text or "weights_only" in text:
        return "it holds more than tensors"
    return text[:200] or type(error).__name__


def _refuse_bombs(stream: BinaryIO, label: str) -> None:
    start = stream.read(len(ZIP_MAGIC))
    stream.seek(0)
    if start != ZIP_MAGIC:
        return
    with open_zip(stream, label) as archive:
        for entry in archive.infolist():
            refuse_bomb(archive, entry, f"{label}: {entry.filename}")
    stream.seek(0)
