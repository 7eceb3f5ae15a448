"""ELMo as a TensorFlow Hub module or SavedModel: a folder, or gzipped tar, with `variables/`.

A module has no options file. The shapes of its variables give all sizes. Clips, activation and
characters a token are assumed to be those of the published models, from which modules were made.
"""

from pathlib import Path, PurePosixPath

from elmo_model.checkpoints import options_file, published_pair, tensor_bundle
from elmo_model.checkpoints.arrays import Arrays
from elmo_model.checkpoints.bilm_tf import variables_of
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, in_folder, is_gzip, only, tar_names, tarred
from elmo_model.network.config import ElmoConfig
from elmo_model.network.task import Task

NAME = "tf-hub"

_INDEX = "variables.index"
_WEIGHTS, _SCALING = "aggregation/weights", "aggregation/scaling"
_NAMES = options_file.Names(
    table="char_embed",
    convolution="CNN/W_cnn_{}",
    highway="CNN_high_{}/W_carry",
    projection="CNN_proj/W_proj",
    bias="RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/B",
)
# Files that an archive of AllenNLP has and a module has not. The first of them ends the search in
# a tar, which would otherwise unpack hundreds of megabytes of weights to look at every name.
_NOT_A_MODULE = ("config.json", "weights.th", "best.th")


def recognises(path: Path) -> bool:
    """Return whether `variables/variables.index` is in the folder or archive at `path`."""
    if path.is_dir():
        return (path / "variables" / _INDEX).is_file() or (
            path.name == "variables" and (path / _INDEX).is_file()
        )
    return is_gzip(path) and _holds_variables(path)


def read(path: Path) -> Checkpoint:
    """Read the module at `path`. Raises CheckpointError if it is incomplete or damaged."""
    source = _source(path)
    index = only(source, source.named(_INDEX), _INDEX)
    with tensor_bundle.open_bundle(source, index) as bundle:
        arrays = variables_of(bundle)
        network = published_pair.network_of(options_file.of_shapes(arrays, _NAMES), arrays, source)
        tasks = _tasks(bundle, network[0])
    note = f"{bundle.label}: has no options; {options_file.ASSUMED}"
    module = path.parent if path.name == "variables" else path
    name = module.resolve().name.split(".tar")[0].removesuffix(".tgz")
    return Checkpoint(name, NAME, *network, tasks, (note,))


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


def _tasks(bundle: Arrays, config: ElmoConfig) -> tuple[Task, ...]:
    """Return the mix behind the module's output `elmo` as a task; none if it holds no mix."""
    if not {_WEIGHTS, _SCALING} <= set(bundle.shapes):
        return ()
    weights, scaling = (bundle.read(name).reshape(-1) for name in (_WEIGHTS, _SCALING))
    if len(weights) != config.layers or len(scaling) != 1:
        raise CheckpointError(
            f"{bundle.label}: {_WEIGHTS} has {len(weights)} numbers, expected {config.layers}"
        )
    text = "The layer aggregation of the TensorFlow Hub module, as it was trained"
    return (Task("elmo", tuple(weights.tolist()), float(scaling[0]), description=text),)
