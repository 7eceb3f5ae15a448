"""Models by name or path: the models that come with the program, and checkpoints."""

import logging
from dataclasses import replace
from pathlib import Path

import torch

from elmo_model import checkpoints
from elmo_model.checkpoints import native, softmax
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.models.catalogue import (
    canonical,
    path_fault,
    tokenization,
)
from elmo_model.models.published import File, Published
from elmo_model.network.elmo import ElmoNetwork, Origin

_log = logging.getLogger(__name__)

BUILT_IN = {"english": Path(__file__).with_name("english.safetensors")}
"""The files of the built-in models by name; `english.md` is the model card of `english`."""


def open_model(name_or_path: str | Path, *, device: str | torch.device = "cpu") -> ElmoNetwork:
    """Load a built-in model by its name, in any case, or the checkpoint at a path.

    A built-in name wins over a file or folder of that name. Published models have to be downloaded
    first. A checkpoint that does not state tokenizer and language is described by its name. Raises
    CheckpointError where there is neither, or the checkpoint is damaged.
    """
    name = str(name_or_path)
    if (built_in := BUILT_IN.get(canonical(name))) is not None:
        elmo = checkpoints.load(built_in, device=device)
    elif (fault := path_fault(name)) is not None:
        raise CheckpointError(fault)
    else:
        elmo = checkpoints.load(name, device=device)
    tokenizer, language = tokenization_of(elmo.origin, name)
    stated = elmo.origin.description
    is_own_file = elmo.origin.format == native.NAME and built_in is None
    if is_own_file and stated.tokenizer is None and tokenizer != "moses":
        _log.warning(
            "%s: does not state its tokenizer; its name, %s, stands for %s",
            *(name, elmo.origin.name, tokenizer),
        )
    described = replace(stated, tokenizer=tokenizer, language=language)
    elmo.origin = replace(elmo.origin, description=described)
    return elmo


def open_published_pair(
    folder: Path, model: Published, options: File, weights: File
) -> ElmoNetwork:
    """Load the pair of a published model, whose files lie in a folder. Raises CheckpointError."""
    elmo = checkpoints.load_pair(folder / options.name, folder / weights.name)
    described = replace(elmo.origin.description, tokenizer=model.tokenizer, language=model.language)
    elmo.origin = replace(elmo.origin, description=described)
    return elmo


def tokenization_of(origin: Origin, name_or_path: str = "") -> tuple[str, str]:
    """Return the tokenizer and the language of a network: as its checkpoint states them.

    Where it does not, its name, or the name or path that it was opened by, decides.
    """
    tokenizer, language = tokenization(name_or_path, origin.name, origin.revision)
    stated = origin.description
    if stated.tokenizer is not None:
        tokenizer = stated.tokenizer
    return tokenizer, language if stated.language is None else stated.language


def find_softmax(
    name_or_path: str | Path, elmo: ElmoNetwork, file: Path | None = None, words: int | None = None
) -> softmax.StoredSoftmax | None:
    """Find the softmax of `elmo`, which `open_model` loaded by this name; None if it has none.

    `file` names it where it lies apart from the model. Only its first `words` words are used.
    Raises CheckpointError for one that is damaged or belongs to another network.
    """
    name = str(name_or_path)
    if file is not None:
        stored: softmax.StoredSoftmax | None = softmax.open_file(file)
    else:
        stored = softmax.find_softmax(BUILT_IN.get(canonical(name)) or Path(name))
    if stored is None:
        return None
    return stored.of_network(elmo.config.lstm.projection, elmo.origin.revision, words)


def needed_softmax(
    name_or_path: str | Path, elmo: ElmoNetwork, file: Path | None = None, words: int | None = None
) -> softmax.StoredSoftmax:
    """Return the softmax that `find_softmax` finds. Raises CheckpointError as well for none."""
    if (stored := find_softmax(name_or_path, elmo, file, words)) is None:
        raise CheckpointError(
            f"{name_or_path}: has no softmax with its vocabulary; expected a run of `elmo train`, "
            f"or a model with one beside it (docs/models.md)"
        )
    return stored
