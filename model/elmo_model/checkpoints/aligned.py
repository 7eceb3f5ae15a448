"""Aligned multilingual ELMo: the pair of one language, and a matrix into the shared space.

The matrix is a file `align.pth`, or the only one that ends in `.pth` (AllenNLP 0.9,
`elmo_token_embedder_multilang.py`; Schuster et al. 2019).
"""

from dataclasses import replace
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import allennlp, pickles
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import ZIP_MAGIC, FolderSource, Source, ZipSource, head
from elmo_model.task import Task

NAME = "aligned"

_ENDING = ".pth"
# The first layer of the biLM alone, as its authors align it; softmax leaves the others nothing.
_FIRST_LAYER = (-9e10, 1.0, -9e10)


def recognises(path: Path) -> bool:
    """Tell whether a pair and a matrix lie here, in a folder or zip, or the matrix itself."""
    if not path.is_dir() and path.name.endswith(_ENDING):
        return pickles.is_pickle(path) and _is_pair(FolderSource(path.parent))
    if not path.is_dir() and head(path, len(ZIP_MAGIC)) != ZIP_MAGIC:
        return False
    source: Source = FolderSource(path) if path.is_dir() else ZipSource(path)
    return bool(_matrices(source)) and _is_pair(source)


def read(path: Path) -> Checkpoint:
    """Read the model that lies here. Raises CheckpointError where it is not whole."""
    if path.is_dir():
        source: Source = FolderSource(path)
    else:
        alone = path.name.endswith(_ENDING)
        source = FolderSource(path.parent) if alone else ZipSource(path)
    found = [path.name] if path.name.endswith(_ENDING) else _matrices(source)
    if len(found) != 1:
        raise CheckpointError(
            f"{source.path}: holds {', '.join(found[:5])}, expected one align.pth: name it itself"
        )
    pair = allennlp.read(source.path)
    matrix = pickles.read_matrix(source, found[0])
    width = pair.config.dimension
    if tuple(matrix.shape) != (width, width):
        raise CheckpointError(
            f"{source.label(found[0])}: has shape {tuple(matrix.shape)}, expected "
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


def _matrices(source: Source) -> list[str]:
    found = [file for file in source.files() if file.endswith(_ENDING)]
    return [file for file in found if PurePosixPath(file).name == "align.pth"] or found


def _is_pair(source: Source) -> bool:
    files = source.files()
    return any(file.endswith("options.json") for file in files) and any(
        file.endswith(".hdf5") for file in files
    )
