"""Checkpoints of bilm-tf as TensorFlow saved them: `model.ckpt-N.index`, its data, options.json."""

import re
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import options_file, published_pair, tensor_bundle
from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, in_folder, only, source_at

NAME = "bilm-tf"

_ENDING = tensor_bundle.ENDING
_MAX_TEXT = 1 << 20  # bytes of the file `checkpoint`
_PATH = re.compile(r'^[ \t]*model_checkpoint_path:[ \t]*"([^"]*)"', re.MULTILINE)
# bilm-tf's `dump_weights` keeps the names of variables such as lm/CNN/W_cnn_0, without the scope.
_KEPT = re.compile(r"(?:.*/)?(char_embed|embedding|CNN(?:_high_\d+|_proj)?/[Wb]_\w+)")
# It renames the LSTMs: lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/projection/kernel becomes
# RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0. A model of one layer has no cell_0 in its names.
# The expression matches what follows the last "RNN_".
_LSTM = re.compile(
    r"([01])/(.*/)?(?:lstm_cell|LSTMCell)/(projection/kernel|kernel|bias|W_P_0|W_0|B)"
)
_CELL = re.compile(r"(?:^|/)[Cc]ell_?(\d+)/")
_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


def recognises(path: Path) -> bool:
    """Return whether `path` is an index, or a folder or zip with an index and no HDF5 file.

    An HDF5 file is the dump of the checkpoint, and makes the folder a published pair.
    """
    source = source_at(path)
    if source is None:
        return path.name.endswith(_ENDING)
    has_dump = any(file.endswith(".hdf5") for file in source.files)
    return any(file.endswith(_ENDING) for file in source.files) and not has_dump


def read(path: Path) -> Checkpoint:
    """Read the checkpoint at `path`. Raises CheckpointError if it is incomplete or damaged."""
    source, index = find_bundle(path)
    described = options_file.read(source, published_pair.options_in(source))
    with tensor_bundle.open_bundle(source, index) as bundle:
        network = published_pair.network_of(described, variables_of(bundle), source)
    return Checkpoint(source.name, NAME, *network)


def variables_of(bundle: Arrays) -> Arrays:
    """Return the variables of the biLM in a bundle by their published names, without any others.

    A checkpoint also holds the softmax and the state of the optimiser. Raises CheckpointError if
    two variables map to one published name.
    """
    variables: dict[str, str] = {}
    for name in bundle.shapes:
        published = _published_name(name)
        if published is None:
            continue
        if published in variables:
            raise CheckpointError(
                f"{bundle.label}: holds {variables[published]} and {name}, expected one {published}"
            )
        variables[published] = name
    shapes = {published: bundle.shapes[name] for published, name in variables.items()}
    return Arrays(bundle.label, shapes, lambda name: bundle.read(variables[name]))


def _published_name(name: str) -> str | None:
    """Return the name that bilm-tf's `dump_weights` gives a variable; None if it leaves it out."""
    if "softmax" in name:
        return None
    if kept := _KEPT.fullmatch(name):
        return kept[1]
    scope, _, rest = name.rpartition("RNN_")
    if (not scope or scope.endswith("/")) and (lstm := _LSTM.fullmatch(rest)):
        direction, between, part = lstm.groups()
        number = _CELL.search(between or "")
        cell = f"Cell{number[1] if number else 0}/LSTMCell"
        return f"RNN_{direction}/RNN/MultiRNNCell/{cell}/{_PARTS.get(part, part)}"
    return None


def find_bundle(path: Path) -> tuple[Source, str]:
    """Return the files at `path` and the index among them.

    The file `checkpoint`, which TensorFlow writes, decides between several.
    """
    archive = source_at(path)
    source = archive or in_folder(path.parent)
    files = source.files if archive else (path.name,)
    indexes = [file for file in files if file.endswith(_ENDING)]
    for file in files:
        if PurePosixPath(file).name == "checkpoint" and len(indexes) > 1:
            text = source.read(file, _MAX_TEXT).decode("utf-8", "replace")
            named = _PATH.search(text)
            last = PurePosixPath(named[1].replace("\\", "/")).name if named else ""
            wanted = str(PurePosixPath(file).parent / (last + _ENDING))
            indexes = [each for each in indexes if each == wanted] or indexes
    return source, only(source, indexes, _ENDING)
