"""ELMo as a TensorFlow Hub module or SavedModel: a folder, or gzipped tar, with `variables/`.

A module has no options file. The shapes of its variables give all sizes. Clips, activation and
characters a token are assumed to be those of the published models, from which modules were made.
"""

from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import layout, options, tensor_bundle
from elmo_model.checkpoints.bilm_tf import variables_of
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, in_folder, is_tar, only, tar_names, tarred
from elmo_model.network.config import ElmoConfig
from elmo_model.network.task import Task
from elmo_model.text.alphabets import Utf8Alphabet

NAME = "tf-hub"

_INDEX = "variables.index"
_WEIGHTS, _SCALING = "aggregation/weights", "aggregation/scaling"
# Files that an archive of AllenNLP has and a module has not. The first of them ends the search in
# a tar, which would otherwise unpack hundreds of megabytes of weights to look at every name.
_NOT_A_MODULE = ("config.json", "weights.th", "best.th")


def recognises(path: Path) -> bool:
    """Return whether `variables/variables.index` is in the folder or archive at `path`."""
    if path.is_dir():
        return (path / "variables" / _INDEX).is_file() or (
            path.name == "variables" and (path / _INDEX).is_file()
        )
    return is_tar(path) and _holds_variables(path)


def read(path: Path) -> Checkpoint:
    """Read the module at `path`. Raises CheckpointError if it is incomplete or damaged."""
    source = _source(path)
    found = [file for file in source.files if PurePosixPath(file).name == _INDEX]
    index = only(source, found, _INDEX, f"one {_INDEX}")
    with tensor_bundle.open_bundle(source, index) as bundle:
        arrays = variables_of(bundle)
        config = options.config_of(_options_of_shapes(arrays), arrays.shapes)
        tensors = layout.decode(arrays, config, "in the other variables")
        layout.refuse_unexpected(arrays, config, "in the other variables")
        tasks = _tasks(bundle, config)
    note = f"{bundle.label}: has no options; {options.ASSUMED}"
    module = path.parent if path.name == "variables" else path
    name = module.resolve().name.split(".tar")[0].removesuffix(".tgz")
    alphabet = Utf8Alphabet(config.char_cnn.max_characters if config.char_cnn else 0)
    return Checkpoint(name, NAME, config, alphabet, tensors, tasks, (note,))


def _source(path: Path) -> Source:
    if path.is_dir():
        return in_folder(path if path.name == "variables" else path / "variables")
    return tarred(path, lambda name: PurePosixPath(name).parent.name == "variables")


def _holds_variables(path: Path) -> bool:
    """Return whether the tar is a module, decided by the first telling name in it."""
    for name in map(PurePosixPath, tar_names(path)):
        if name.parent.name == "variables":
            return True
        if name.name in _NOT_A_MODULE:
            return False
    return False


def _options_of_shapes(arrays: layout.Arrays) -> options.OptionsFile:
    """Return the options file that these variables would have."""
    cell = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell"
    filters = [arrays.sizes(f"CNN/W_cnn_{i}", 4) for i in range(arrays.count("CNN/W_cnn_{}"))]
    return options.assumed(
        arrays.label,
        embedding=arrays.sizes("char_embed", 2)[1],
        filters=[(shape[1], shape[3]) for shape in filters],
        highways=arrays.count("CNN_high_{}/W_carry"),
        layers=arrays.count(f"{cell}/B"),
        cell=arrays.sizes(f"{cell.format(0)}/B", 1)[0] // 4,
        projection=arrays.sizes("CNN_proj/W_proj", 2)[1],
    )


def _tasks(bundle: layout.Arrays, config: ElmoConfig) -> tuple[Task, ...]:
    """Return the mix behind the module's output `elmo` as a task; none if it holds no mix."""
    if not {_WEIGHTS, _SCALING} <= set(bundle.shapes):
        return ()
    weights, scaling = bundle.numbers(_WEIGHTS).reshape(-1), bundle.numbers(_SCALING).reshape(-1)
    if len(weights) != config.layers or len(scaling) != 1:
        raise CheckpointError(
            f"{bundle.label}: {_WEIGHTS} has {len(weights)} numbers, expected {config.layers}"
        )
    text = "The layer aggregation of the TensorFlow Hub module, as it was trained"
    return (Task("elmo", tuple(weights.tolist()), float(scaling[0]), description=text),)
