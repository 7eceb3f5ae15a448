"""Checkpoints: files to networks and back. One format a file, one table, recognised by content."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from model.checkpoints import allennlp, native
from model.checkpoints.checkpoint import Checkpoint, CheckpointError
from model.checkpoints.native import save
from model.config import ElmoConfig
from model.elmo import Elmo, Origin


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is told from others, and read."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path], Checkpoint]


FORMATS = {
    native.NAME: Format(native.recognises, native.read),
    allennlp.NAME: Format(allennlp.recognises, allennlp.read),
}


def load(
    path: str | Path, *, device: str | torch.device = "cpu", token_cache_size: int = 65_536
) -> Elmo:
    """Load the network that lies at a path: a file, a folder or a zip.

    Raises CheckpointError, with file, key, found and expected, for what is not whole.
    """
    return read(path).build(token_cache_size).to(device)


def describe(path: str | Path) -> tuple[ElmoConfig, Origin, int]:
    """Return configuration, origin and number of parameters, without building a network."""
    checkpoint = read(path)
    return checkpoint.config, checkpoint.origin(), checkpoint.config.parameter_count


def read(path: str | Path) -> Checkpoint:
    """Read the checkpoint at a path into memory."""
    place = Path(path)
    if not place.exists():
        raise CheckpointError(f"{place}: does not exist, expected a checkpoint")
    for form in FORMATS.values():
        if form.recognises(place):
            return form.read(place)
    raise CheckpointError(
        f"{place}: is of no known format, expected a .safetensors of ours, "
        f"or options.json and weights.hdf5 in a folder or zip"
    )


__all__ = ["FORMATS", "Checkpoint", "CheckpointError", "Format", "describe", "load", "read", "save"]
