"""Checkpoints: files to networks and back. One module per format, one table of formats."""

import logging
from pathlib import Path
from typing import Protocol

import torch

from elmo_model.checkpoints import (
    allennlp_model,
    bilm_tf,
    elmoformanylangs,
    native,
    published_pair,
    tf_hub,
)
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError, round_weights
from elmo_model.checkpoints.native import save
from elmo_model.network.elmo import ElmoNetwork

_log = logging.getLogger(__name__)


class Format(Protocol):
    """One format, a module: `recognises` looks at names and first bytes, `read` reads everything.

    `NAME` is what a checkpoint of the format says of itself.
    """

    NAME: str

    def recognises(self, path: Path) -> bool: ...

    def read(self, path: Path) -> Checkpoint: ...


# The order matters: the first format that recognises a path reads it, and some formats contain
# the files of others.
# - `native` comes first: the folder of a training run holds files of other formats as well.
# - `bilm-tf` shares the options file with the pair, so it is before `allennlp`.
# - `allennlp-archive` recognises any gzipped tar, so `tf-hub`, whose modules come as such, is
#   before it. A folder of a trained model may hold an options file, so it is before `allennlp`.
# - `allennlp` comes last: any options file or HDF5 file is enough for it.
_IN_ORDER: tuple[Format, ...] = (
    native,
    elmoformanylangs,
    tf_hub,
    allennlp_model,
    bilm_tf,
    published_pair,
)
FORMATS = {form.NAME: form for form in _IN_ORDER}


def load(path: str | Path, *, device: str | torch.device = "cpu") -> ElmoNetwork:
    """Load the network at a path: a file, a folder or a zip. Names of models are not taken.

    Raises CheckpointError, with file, key, found and expected, for a missing, damaged or unknown
    checkpoint.
    """
    return _with_notes_logged(read(path)).build().to(device)


def load_pair(options: str | Path, weights: str | Path) -> ElmoNetwork:
    """Load the published pair from two files, wherever they lie and whatever their names are.

    Raises CheckpointError, which names the file, as `load` does.
    """
    return _with_notes_logged(published_pair.read_files(Path(options), Path(weights))).build()


def read(path: str | Path) -> Checkpoint:
    """Read the checkpoint at a path into memory. Raises CheckpointError as `load` does."""
    place = Path(path)
    try:
        form = _form(place)
    except OSError as error:  # a folder that this user may not search
        raise CheckpointError(f"{place}: cannot be read: {error.strerror}") from error
    return form.read(place)


def _form(place: Path) -> Format:
    """Return the first format that recognises a path. Raises CheckpointError and OSError."""
    for form in FORMATS.values():
        if form.recognises(place):
            return form
    if (place / "run.json").is_file():
        raise CheckpointError(
            f"{place}: is a run of `elmo train` without a {native.RUN_FILE}, which is written when "
            f"the training ends"
        )
    raise CheckpointError(
        f"{place}: is of no known format, expected a .safetensors file of elmo-serve, options.json "
        f"and weights.hdf5 in a folder or zip, or another of {', '.join(FORMATS)}"
    )


def _with_notes_logged(checkpoint: Checkpoint) -> Checkpoint:
    for note in checkpoint.notes:
        _log.warning("%s", note)
    for name, tensor in checkpoint.tensors.items():
        # the sum is quick, and finite unless a number is not or the numbers are huge
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            _log.warning(
                "%s: %s holds NaN or infinity, so its vectors will be NaN", checkpoint.name, name
            )
    return checkpoint


__all__ = [
    "FORMATS",
    "Checkpoint",
    "CheckpointError",
    "load",
    "load_pair",
    "read",
    "round_weights",
    "save",
]
