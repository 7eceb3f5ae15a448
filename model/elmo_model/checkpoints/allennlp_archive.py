"""Models trained with AllenNLP: the biLM inside `model.tar.gz` or `weights.th`, and its mixes.

The state dict holds no clips and no activation. They are taken from an options file in the archive
or beside the weights, and are those of all published models where there is none.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from torch import Tensor

from elmo_model.alphabets import Utf8Alphabet
from elmo_model.checkpoints import options, pickles, tars
from elmo_model.checkpoints.checkpoint import Checkpoint, CheckpointError
from elmo_model.checkpoints.layout import FORGET_BIAS
from elmo_model.checkpoints.source import FolderSource
from elmo_model.checkpoints.state_dict import Stored, bilm_of, char_cnn_of, projection_of
from elmo_model.config import CharCNNConfig, ConfigError, ElmoConfig, LSTMConfig
from elmo_model.task import Task

NAME = "allennlp-archive"

_WEIGHTS = ("weights.th", "best.th")
_CONFIGS = ("config.json", "model_params.json")
_GREATEST_JSON = 16 << 20  # bytes
_TABLE = "_elmo_lstm._token_embedder._char_embedding_weights"
_EMBEDDER = "_elmo_lstm._token_embedder."
_STACKS = "_elmo_lstm._elmo_lstm."
_PARTS = (
    "CNN_proj/W_proj",
    "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0",
)  # AllenNLP has both projections always
_UNSAID = ("model", "weights", "best")  # names of files that say nothing
_CLIP, _CHARACTERS = 3.0, 50  # of all published models


def recognises(path: Path) -> bool:
    """Tell whether such a model lies here: an archive, a file of weights, or the folder of one."""
    if path.is_dir():
        files = FolderSource(path).files()
        return any(name in files for name in _WEIGHTS)
    return tars.is_tar(path) or pickles.is_pickle(path)


def read(path: Path) -> Checkpoint:
    """Read the one ELMo of the model that lies here.

    Raises CheckpointError where there is none, or more than one.
    """
    files = _open(path)
    state = pickles.state_of(
        pickles.read(BytesIO(files.weights), files.weights_label), files.weights_label
    )
    prefix = _prefix(files.weights_label, state)
    training = _training(files)
    described = _options(files, training)
    if described is None:
        config, origin = _config_by_shapes(files.weights_label, state, prefix), "the other tensors"
        notes: tuple[str, ...] = (
            f"{files.weights_label}: holds no options file; clips of 3, relu and 50 characters a "
            f"token were taken, as in all published models",
        )
    else:
        config, origin, notes = options.config_of(described, _PARTS), described.label, ()
    cnn, label = config.char_cnn, files.weights_label
    assert cnn is not None, "options that spell"
    embedder = Stored(label, state, origin, prefix + _EMBEDDER)
    stacks = Stored(label, state, origin, prefix + _STACKS)
    ours = "token_embedder.char_cnn"
    tensors: dict[str, Tensor] = {
        f"{ours}.characters": embedder.take(
            "_char_embedding_weights", cnn.characters, cnn.embedding
        ),
        **char_cnn_of(embedder, cnn, "char_conv_{}", "_highways._layers.{}"),
        **projection_of(embedder, "_projection", ours, config),
        **bilm_of(stacks, config.lstm),
    }
    embedder.refuse_more()
    stacks.refuse_more()
    tasks = _tasks(Stored(label, state, origin, prefix), state, prefix, config.layers, files.name)
    normed = bool(training.get("do_layer_norm", False))
    if normed:
        tasks = tuple(Task(t.name, t.weights, t.gamma, True, t.description) for t in tasks)
    alphabet = Utf8Alphabet(cnn.max_characters)
    return Checkpoint(files.name, NAME, config, alphabet, tensors, tasks, notes)


# The files


@dataclass(frozen=True, slots=True)
class _Files:
    """What an archive, or a folder, holds of interest; JSON files by their names."""

    name: str
    label: str
    weights_label: str
    weights: bytes
    documents: Mapping[str, bytes]


def _open(path: Path) -> _Files:
    if not path.is_dir() and tars.is_tar(path):
        return _in_archive(path)
    folder = FolderSource(path if path.is_dir() else path.parent)
    files = folder.files()
    file = next(name for name in _WEIGHTS if name in files) if path.is_dir() else path.name
    documents = {
        name: folder.read(name, _GREATEST_JSON) for name in files if _is_document(name, files)
    }
    with folder.open(file) as stream:
        weights = stream.read()
    name = _named(PurePosixPath(file).name.split(".")[0], folder.path)
    return _Files(name, str(folder.path), folder.label(file), weights, documents)


def _is_document(name: str, files: list[str]) -> bool:
    return name in _CONFIGS or name.endswith("options.json")


def _in_archive(path: Path) -> _Files:
    files = tars.read(path, lambda name: name in _WEIGHTS or _is_member(name))
    file = next((name for name in _WEIGHTS if name in files), None)
    if file is None:
        raise CheckpointError(f"{path}: holds no {' or '.join(_WEIGHTS)}, expected the weights")
    documents = {name: content for name, content in files.items() if _is_member(name)}
    for name, content in documents.items():
        if len(content) > _GREATEST_JSON:
            raise CheckpointError(
                f"{path}:{name}: is larger than expected, at most {_GREATEST_JSON:,} bytes"
            )
    name = _named(path.name.split(".")[0], path.parent)
    return _Files(name, str(path), f"{path}:{file}", files[file], documents)


def _is_member(name: str) -> bool:
    # files that a configuration names are kept as fta/<the key that names them>
    archived = name.startswith("fta/") and name.endswith("options_file")
    return archived or name in _CONFIGS or name.endswith("options.json")


def _named(stem: str, folder: Path) -> str:
    return folder.resolve().name if stem in _UNSAID else stem


# What the state dict holds


def _prefix(label: str, state: Mapping[str, Tensor]) -> str:
    found = sorted(name.removesuffix(_TABLE) for name in state if name.endswith(_TABLE))
    if len(found) != 1:
        has = f"{len(found)} ELMos: {', '.join(found[:5])}" if found else "no ELMo"
        raise CheckpointError(f"{label}: holds {has}, expected one name that ends in {_TABLE}")
    return found[0]


def _config_by_shapes(label: str, state: Mapping[str, Tensor], prefix: str) -> ElmoConfig:
    """Return the sizes that the tensors have, with the rules of all published models."""
    embedder, stacks = prefix + _EMBEDDER, prefix + _STACKS

    def shape(name: str, axes: int) -> tuple[int, ...]:
        if name not in state or state[name].dim() != axes:
            raise CheckpointError(f"{label}: {name} is missing, expected a tensor of {axes} axes")
        return tuple(state[name].shape)

    characters, embedding = shape(prefix + _TABLE, 2)
    filters: list[tuple[int, int]] = []
    while (name := f"{embedder}char_conv_{len(filters)}.weight") in state:
        count, _, span = shape(name, 3)
        filters.append((span, count))
    highways = layers = 0
    while f"{embedder}_highways._layers.{highways}.weight" in state:
        highways += 1
    while f"{stacks}forward_layer_{layers}.input_linearity.weight" in state:
        layers += 1
    projection, cell = shape(f"{stacks}forward_layer_0.state_projection.weight", 2)
    if characters != Utf8Alphabet.size:
        raise CheckpointError(
            f"{label}: {prefix + _TABLE} has {characters} rows, expected {Utf8Alphabet.size}"
        )
    try:
        return ElmoConfig(
            CharCNNConfig(characters, embedding, tuple(filters), highways, "relu", _CHARACTERS),
            LSTMConfig(
                layers=layers,
                cell=cell,
                projection=projection,
                cell_clip=_CLIP,
                projection_clip=_CLIP,
                skip=True,
                forget_bias=FORGET_BIAS,
            ),
        )
    except ConfigError as error:
        raise CheckpointError(f"{label}: {error}") from error


def _tasks(
    stored: Stored, state: Mapping[str, Tensor], prefix: str, layers: int, name: str
) -> tuple[Task, ...]:
    """Return the scalar mixes that were trained with the model, in their order."""
    numbers = 0
    while f"{prefix}scalar_mix_{numbers}.gamma" in state:
        numbers += 1
    base = re.sub(r"[^A-Za-z0-9._-]", "-", name).strip("._-")[:50] or "mix"
    tasks = []
    for number in range(numbers):
        mix = f"scalar_mix_{number}"
        weights = tuple(
            stored.take(f"{mix}.scalar_parameters.{layer}", 1).item() for layer in range(layers)
        )
        tasks.append(
            Task(
                name=base if numbers == 1 else f"{base}-{number}",
                weights=weights,
                gamma=stored.take(f"{mix}.gamma", 1).item(),
                description=f"{mix} of the AllenNLP model {name}, as it was trained",
            )
        )
    return tuple(tasks)


# The configuration of the training, and the options of its ELMo


def _training(files: _Files) -> Mapping[str, Any]:
    """Return what the configuration says of the ELMo: the object that names an options file."""
    for name in _CONFIGS:
        if name in files.documents:
            try:
                values = json.loads(files.documents[name])
            except (ValueError, RecursionError) as error:
                raise CheckpointError(f"{files.label}:{name}: is not JSON: {error}") from error
            return next(_objects_with("options_file", values), {})
    return {}


def _objects_with(key: str, value: Any, depth: int = 50) -> Iterator[Mapping[str, Any]]:
    if depth and isinstance(value, dict):
        if key in value:
            yield value
        for member in value.values():
            yield from _objects_with(key, member, depth - 1)
    elif depth and isinstance(value, list):
        for member in value:
            yield from _objects_with(key, member, depth - 1)


def _options(files: _Files, training: Mapping[str, Any]) -> options.OptionsFile | None:
    """Return the options that were archived with the model, or lie beside it."""
    found = [name for name in files.documents if name.endswith("options_file")]
    if not found:
        named = PurePosixPath(str(training.get("options_file", ""))).name
        beside = [name for name in files.documents if name.endswith("options.json")]
        found = [name for name in beside if PurePosixPath(name).name == named] or beside
    if not found:
        return None
    if len(found) > 1:
        raise CheckpointError(
            f"{files.label}: holds {', '.join(sorted(found)[:5])}, expected one options file"
        )
    return options.parse(f"{files.label}:{found[0]}", files.documents[found[0]])
