"""Aligned multilingual ELMo: the published pair of one language, and an alignment matrix.

The matrix maps vectors into a space that all languages share. It is a file `align.pth`, or the
only one that ends in `.pth` (AllenNLP 0.9, `elmo_token_embedder_multilang.py`; Schuster et al.
2019).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import allennlp, pickles
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, files_at, in_folder, only
from elmo_model.network.task import Task

NAME = "aligned"

_ENDING = ".pth"
# Weights before softmax that select the first biLSTM layer alone, which the authors align. Softmax
# makes the other two weights exactly zero.
_FIRST_LAYER = (-9e10, 1.0, -9e10)


def recognises(path: Path) -> bool:
    """Return whether `path` is a folder or zip with a pair and a matrix, or such a matrix."""
    source, files = _files_at(path)
    if not _matrices(files) or (source.path != path and not pickles.is_pickle(path)):
        return False
    beside = source.files
    return any(map(allennlp.is_options, beside)) and any(f.endswith(".hdf5") for f in beside)


def read(path: Path) -> Checkpoint:
    """Read the model at `path`. Raises CheckpointError if it is incomplete."""
    source, files = _files_at(path)
    file = only(source, _matrices(files), "align.pth", "one align.pth: name it itself")
    pair = allennlp.read(source.path)
    matrix = pickles.read_matrix(source, file)
    width = pair.config.dimension
    if tuple(matrix.shape) != (width, width):
        raise CheckpointError(
            f"{source.label(file)}: has shape {tuple(matrix.shape)}, expected "
            f"{(width, width)} by lstm.projection_dim"
        )
    tasks: tuple[Task, ...] = ()
    if pair.config.layers == len(_FIRST_LAYER):
        text = "The first layer of the biLM alone, which aligned models are used with"
        tasks = (Task("aligned", _FIRST_LAYER, description=text),)
    return replace(
        pair,
        format=NAME,
        config=replace(pair.config, aligned=True),
        tensors={**pair.tensors, "alignment": matrix},
        tasks=tasks,
    )


def _files_at(path: Path) -> tuple[Source, Sequence[str]]:
    if path.name.endswith(_ENDING) and not path.is_dir():  # torch writes it as a zip
        return in_folder(path.parent), [path.name]
    return files_at(path)


def _matrices(files: Sequence[str]) -> list[str]:
    found = [file for file in files if file.endswith(_ENDING)]
    return [file for file in found if PurePosixPath(file).name == "align.pth"] or found
