"""Write a network in another format, or with the state after a text as its start."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from elmo_model.checkpoints import native, published_pair, round_weights, softmax
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.files.atomic import publish
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.softmax import WordSoftmax

NATIVE = ".safetensors"
"""The ending of a file in the native format; any other destination is a folder with the pair."""


def convert(
    elmo: ElmoNetwork,
    destination: Path,
    dtype: str,
    on_step: Callable[[str], None],
    kept: WordSoftmax | None = None,
    softmax_dtype: str = "int8",
) -> tuple[str, int]:
    """Write a network to `destination`, and return its format there and its size in bytes.

    It is written into a temporary folder of the same file system and then moved into place: over a
    file that is there, or an empty folder. With 16 bits the weights of `elmo` are rounded; its
    centre stays that of the weights before, because the text of it may not be there. The
    softmax that is `kept`, for the native format alone, is written beside it, and one of another
    network that is there is deleted. Raises CheckpointError for a network that the format cannot
    hold, or where the disk refuses.
    """
    kind: torch.dtype = getattr(torch, dtype)
    if dtype != "float32":
        round_weights(elmo, kind)
    try:
        with tempfile.TemporaryDirectory(prefix=".elmo-", dir=destination.parent) as aside:
            on_step(f"Writing {destination}")
            written = Path(aside) / destination.name
            _write(elmo, written, destination, kind)
            size = _size(written)
            publish(written, destination)
            if destination.suffix == NATIVE:
                _write_softmax(kept, destination, elmo.origin.revision, softmax_dtype)
    except OSError as error:
        fault = error.strerror or error
        raise CheckpointError(f"{destination} cannot be written: {fault}") from error
    return native.NAME if destination.suffix == NATIVE else published_pair.NAME, size


def _write(elmo: ElmoNetwork, written: Path, destination: Path, dtype: torch.dtype) -> None:
    try:
        if destination.suffix == NATIVE:
            native.save(elmo, written, dtype)
        else:
            published_pair.write(elmo, written)
    except CheckpointError as error:
        # The user does not know the temporary folder.
        raise CheckpointError(str(error).replace(str(written), str(destination))) from error


def _write_softmax(kept: WordSoftmax | None, destination: Path, revision: str, dtype: str) -> None:
    path = destination.with_suffix(softmax.ENDING)
    if kept is None:
        path.unlink(missing_ok=True)
    else:
        softmax.save(kept, path, revision, getattr(torch, dtype))


def _size(written: Path) -> int:
    """Return the size of a file, or of the files of a folder, in bytes."""
    files = written.iterdir() if written.is_dir() else [written]
    return sum(path.stat().st_size for path in files)
