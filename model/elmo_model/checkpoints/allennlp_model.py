"""Models trained with AllenNLP: the biLM in `model.tar.gz` or `weights.th`, and its scalar mixes.

The state dict holds neither clips nor activation. They come from an options file in the archive or
the folder. Without one, those of the published models are assumed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from elmo_model.checkpoints import options_file, pickles, published_pair
from elmo_model.checkpoints.arrays import PLAIN, Arrays, StoredArray, decode
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.source import Source, in_folder, is_gzip, only, tarred
from elmo_model.checkpoints.state_dict import (
    arrays_of,
    bilm_entries,
    char_cnn_entries,
    projection_entries,
)
from elmo_model.network.config import CharCNNConfig, ElmoConfig
from elmo_model.network.task import Task
from elmo_model.text.alphabets import Utf8Alphabet

NAME = "allennlp-archive"

_WEIGHTS = ("weights.th", "best.th", "model.pt")  # the last one is PyTorch's custom
_CONFIGS = ("config.json", "model_params.json")
_MAX_JSON = 16 << 20  # bytes
_EMBEDDER_TYPE = "elmo_token_embedder"  # how the types of AllenNLP's embedders begin
_TABLE = "_elmo_lstm._token_embedder._char_embedding_weights"
_BILM = "_elmo_lstm."
_EMBEDDER = "_token_embedder."
_STACKS = "_elmo_lstm."
# AllenNLP always has both projections; bilm-tf leaves them out where sizes are equal.
_PROJECTIONS = ("CNN_proj/W_proj", "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0")
_GENERIC_NAMES = ("model", "weights", "best")  # file names that do not name the model


def recognises(path: Path) -> bool:
    """Return whether `path` is a gzipped tar, a file of torch, or a folder with `weights.th`.

    A `model.pt` beside HDF5 may be another model, which uses the published pair.
    """
    if path.is_dir():
        files = in_folder(path).files
        has_pair = any(name.endswith(".hdf5") for name in files)
        return any(name in files for name in (_WEIGHTS[:2] if has_pair else _WEIGHTS))
    return is_gzip(path) or (pickles.is_pickle(path) and not published_pair.is_alignment(path))


def read(path: Path) -> Checkpoint:
    """Read the one ELMo of the model at `path`. Raises CheckpointError for none or several."""
    source, file, name = _open(path)
    arrays = arrays_of(source.label(file), pickles.read_state(source, file))
    prefix = _prefix(arrays)
    training = _training(source)
    described = _options(source, training)
    notes: tuple[str, ...] = ()
    origin = described.label if described else "the other tensors"
    if described is None:
        notes = (f"{arrays.label}: holds no options file; {options_file.ASSUMED}",)
        described = options_file.of_shapes(arrays, _names(prefix + _BILM))
    config = options_file.config_of(described, _PROJECTIONS)
    assert config.char_cnn is not None, "options with characters"
    alphabet = Utf8Alphabet(config.char_cnn.max_characters)
    bilm = prefix + _BILM
    stored = stored_arrays(bilm, config, config.char_cnn)
    parts = (bilm + _EMBEDDER, bilm + _STACKS)
    others = [each for each in arrays.shapes if not each.startswith(parts)]
    tensors = decode(arrays, stored, config, alphabet, origin, tolerated=others)
    has_norm = bool(training.get("do_layer_norm", False))
    tasks = tuple(_tasks(arrays, prefix, config.layers, name, has_norm))
    return Checkpoint(name, NAME, config, alphabet, tensors, tasks, notes)


def _names(prefix: str) -> options_file.Names:
    embedder, stacks = prefix + _EMBEDDER, prefix + _STACKS
    return options_file.Names(
        table=f"{embedder}_char_embedding_weights",
        convolution=f"{embedder}char_conv_{{}}.weight",
        highway=f"{embedder}_highways._layers.{{}}.weight",
        projection=f"{embedder}_projection.weight",
        bias=f"{stacks}forward_layer_{{}}.state_linearity.bias",
        is_torch=True,
    )


def stored_arrays(prefix: str, config: ElmoConfig, cnn: CharCNNConfig) -> Iterator[StoredArray]:
    """Yield all tensors of AllenNLP's biLM, whose names begin with `prefix`."""
    embedder, ours = prefix + _EMBEDDER, "token_embedder.char_cnn"
    table = f"{embedder}_char_embedding_weights"
    yield StoredArray(table, (f"{ours}.characters",), PLAIN)
    yield from char_cnn_entries(
        cnn, f"{embedder}char_conv_{{}}", f"{embedder}_highways._layers.{{}}"
    )
    yield from projection_entries(f"{embedder}_projection", ours)
    yield from bilm_entries(config.lstm, prefix + _STACKS)


# The files.


def _open(path: Path) -> tuple[Source, str, str]:
    """Return the files of an archive or folder, those of the weights, and the model's name."""
    if not path.is_dir() and is_gzip(path):
        archive = tarred(path, lambda name: name in _WEIGHTS or _is_document(name))
        return archive, _weights_in(archive), _named(path.name, path.parent)
    source = in_folder(path if path.is_dir() else path.parent)
    file = _weights_in(source) if path.is_dir() else path.name
    return source, file, _named(file, source.path)


def _weights_in(source: Source) -> str:
    file = next((name for name in _WEIGHTS if name in source.files), None)
    if file is None:
        raise CheckpointError(
            f"{source.path}: holds no {' or '.join(_WEIGHTS)}, expected the weights of a model of "
            "AllenNLP; options.json and weights.hdf5 are read from a folder or a zip"
        )
    return file


def _is_document(name: str) -> bool:
    # AllenNLP archives a file that the configuration names as fta/<key of the configuration>.
    archived = name.startswith("fta/") and name.endswith("options_file")
    return archived or name in _CONFIGS or published_pair.is_options(name)


def _named(file: str, parent: Path) -> str:
    stem = file.split(".", maxsplit=1)[0]
    return parent.resolve().name if stem in _GENERIC_NAMES else stem


# The state dict.


def _prefix(arrays: Arrays) -> str:
    """Return the prefix of the names that belong to the ELMo, which depends on the model."""
    prefixes = sorted(name.removesuffix(_TABLE) for name in arrays.shapes if name.endswith(_TABLE))
    if len(prefixes) != 1:
        has = f"{len(prefixes)} ELMos: {', '.join(prefixes[:5])}" if prefixes else "no ELMo"
        raise CheckpointError(
            f"{arrays.label}: holds {has}, expected one name that ends in {_TABLE}"
        )
    return prefixes[0]


def _tasks(arrays: Arrays, prefix: str, layers: int, name: str, layer_norm: bool) -> Iterator[Task]:
    """Yield the scalar mixes of the model in order, named after it."""
    numbers = arrays.count(f"{prefix}scalar_mix_{{}}.gamma")
    base = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("._-")[:50] or "mix"

    def number_at(place: str) -> float:
        return arrays.take(prefix + place, (1,), "the scalar mix").item()

    for number in range(numbers):
        mix = f"scalar_mix_{number}"
        yield Task(
            name=base if numbers == 1 else f"{base}-{number}",
            weights=tuple(number_at(f"{mix}.scalar_parameters.{k}") for k in range(layers)),
            gamma=number_at(f"{mix}.gamma"),
            layer_norm=layer_norm,
            description=f"{mix} of the AllenNLP model {name}, as it was trained",
        )


# The configuration of the training, and the options file.


def _training(source: Source) -> Mapping[str, Any]:
    """Return the object of the training configuration that describes the ELMo; empty if none.

    From AllenNLP 1.0 on it need not name its options file (`elmo_token_embedder.py`).
    """
    for name in _CONFIGS:
        if name in source.files:
            values = options_file.json_object(source.label(name), source.read(name, _MAX_JSON))
            objects = list(_objects(values))
            named = [each for each in objects if "options_file" in each]
            typed = [each for each in objects if str(each.get("type")).startswith(_EMBEDDER_TYPE)]
            flagged = [each for each in objects if "do_layer_norm" in each]
            return next(iter([*named, *typed, *flagged]), {})
    return {}


def _objects(value: Any, depth: int = 50) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a JSON value, outermost first."""
    members: Iterable[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
        members = value.values()
    for member in members if depth else ():
        yield from _objects(member, depth - 1)


def _options(source: Source, training: Mapping[str, Any]) -> options_file.OptionsFile | None:
    """Return the options file in the archive or folder; None if there is none."""
    documents = list(filter(_is_document, source.files))
    chosen = [name for name in documents if name.endswith("options_file")]
    if not chosen:
        named = PurePosixPath(str(training.get("options_file", ""))).name
        candidates = [name for name in documents if published_pair.is_options(name)]
        chosen = [name for name in candidates if PurePosixPath(name).name == named] or candidates
    if not chosen:
        return None
    return options_file.read(source, only(source, chosen, "options file"))
