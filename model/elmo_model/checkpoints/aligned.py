"""Aligned multilingual ELMo: the published pair of one language, and an alignment matrix.

The matrix maps vectors into a space that all languages share. It is a file `align.pth`, or the
only one that ends in `.pth` (AllenNLP 0.9, `elmo_token_embedder_multilang.py`; Schuster et al.
2019).
"""

from dataclasses import replace
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import allennlp, pickles
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import FolderSource, Source, only, source_at
from elmo_model.network.task import Task

NAME = "aligned"

_ENDING = ".pth"
# Weights before softmax that select the first biLSTM layer alone, which the authors align. Softmax
# makes the other two weights exactly zero.
_FIRST_LAYER = (-9e10, 1.0, -9e10)


def recognises(path: Path) -> bool:
    """Return whether `path` is a folder or zip with a pair and a matrix, or such a matrix."""
    source = source_at(path)
    if path.name.endswith(_ENDING) and not path.is_dir():
        return pickles.is_pickle(path) and _holds_pair(FolderSource(path.parent))
    return source is not None and bool(_matrices(source)) and _holds_pair(source)


def read(path: Path) -> Checkpoint:
    """Read the model at `path`. Raises CheckpointError if it is incomplete."""
    source, matrices = _source(path)
    file = only(source, matrices, "align.pth", "one align.pth: name it itself")
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


def _source(path: Path) -> tuple[Source, list[str]]:
    """Return the files at `path`, and the names of those that may be the matrix."""
    if path.name.endswith(_ENDING) and not path.is_dir():
        return FolderSource(path.parent), [path.name]
    source = source_at(path)
    assert source is not None, "`recognises` accepts nothing else"
    return source, _matrices(source)


def _matrices(source: Source) -> list[str]:
    found = [file for file in source.files() if file.endswith(_ENDING)]
    return [file for file in found if PurePosixPath(file).name == "align.pth"] or found


def _holds_pair(source: Source) -> bool:
    files = source.files()
    return any(map(allennlp.is_options, files)) and any(file.endswith(".hdf5") for file in files)
