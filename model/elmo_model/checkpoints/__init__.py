"""Checkpoints: files to networks and back. One format a file, one table, recognised by content."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo_model.checkpoints import (
    aligned,
    allennlp,
    allennlp_archive,
    bilm_tf,
    elmoformanylangs,
    native,
    tf_hub,
    token_embeddings,
)
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.native import save
from elmo_model.config import ElmoConfig
from elmo_model.elmo import Elmo, Origin

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is told from others, and read."""

    recognises: Callable[[Path], bool]
    read: Callable[[Path], Checkpoint]


FORMATS = {
    native.NAME: Format(native.recognises, native.read),
    elmoformanylangs.NAME: Format(elmoformanylangs.recognises, elmoformanylangs.read),
    aligned.NAME: Format(aligned.recognises, aligned.read),
    tf_hub.NAME: Format(tf_hub.recognises, tf_hub.read),
    allennlp_archive.NAME: Format(allennlp_archive.recognises, allennlp_archive.read),
    bilm_tf.NAME: Format(bilm_tf.recognises, bilm_tf.read),
    token_embeddings.NAME: Format(token_embeddings.recognises, token_embeddings.read),
    allennlp.NAME: Format(allennlp.recognises, allennlp.read),
}


def load(
    path: str | Path, *, device: str | torch.device = "cpu", token_cache_size: int = 65_536
) -> Elmo:
    """Load the network that lies at a path: a file, a folder or a zip.

    Raises CheckpointError, with file, key, found and expected, for what is not whole.
    """
    return _noted(read(path)).build(token_cache_size).to(device)


def describe(path: str | Path) -> tuple[ElmoConfig, Origin, int]:
    """Return configuration, origin and number of parameters, without building a network."""
    checkpoint = _noted(read(path))
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
        f"{place}: is of no known format, expected a .safetensors of ours, options.json and "
        f"weights.hdf5 in a folder or zip, or another of {', '.join(FORMATS)}"
    )


def _noted(checkpoint: Checkpoint) -> Checkpoint:
    for note in checkpoint.notes:
        _log.warning("%s", note)
    return checkpoint


__all__ = ["FORMATS", "Checkpoint", "CheckpointError", "Format", "describe", "load", "read", "save"]
