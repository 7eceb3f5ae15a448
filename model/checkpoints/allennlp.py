"""The published pair of bilm-tf and AllenNLP: `options.json` and `weights.hdf5`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor

from model.alphabets import Utf8Alphabet
from model.checkpoints.checkpoint import Checkpoint, CheckpointError, checkpoint_of
from model.checkpoints.source import ZIP_MAGIC, Folder, Source, Zip, head
from model.checkpoints.writing import replacing
from model.config import CharCNNConfig, ConfigError, ElmoConfig, LSTMConfig
from model.elmo import Elmo

NAME = "allennlp"

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_GREATEST_OPTIONS = 1 << 20  # bytes
# Weights are stored as they are, or a little compressed; a dataset that declares more than this
# many times what it stores would only fill the memory.
_GREATEST_RATIO = 100
# bilm-tf adds 1 to the stored bias of the forget gate at run time.
_FORGET_BIAS = 1.0
_WORD_INPUT = "embedding"  # dataset of word-input models that may lie beside the others


def recognises(path: Path) -> bool:
    """Tell whether a pair lies here: a folder or zip of it, or one file of it."""
    if path.is_dir():
        return any(_is_part(file) for file in Folder(path).files())
    start = head(path, 64)
    if start.startswith(ZIP_MAGIC):
        return any(_is_part(file) for file in Zip(path).files())
    return start.startswith(_HDF5_MAGIC) or _is_options(path.name)


def read(path: Path) -> Checkpoint:
    """Read the pair that lies here. Raises CheckpointError where it is not whole."""
    pair = _find(path)
    options = _read_options(pair)
    with _datasets(pair) as datasets:
        config = _config(options, datasets)
        tensors: dict[str, Tensor] = {}
        expected = set()
        for entry in _layout(config):
            expected.add(entry.dataset)
            stored = torch.from_numpy(_read_dataset(pair, entry, datasets))
            tensors.update(zip(entry.tensors, entry.storage.decode(stored), strict=True))
        _refuse_unexpected(pair, config, datasets.keys() - expected - {_WORD_INPUT})
    alphabet = Utf8Alphabet(config.char_cnn.max_characters)
    return Checkpoint(pair.name, NAME, config, alphabet, tensors)


def write(elmo: Elmo, folder: str | Path) -> None:
    """Write a network as a pair into a folder, each file whole or not at all.

    Raises CheckpointError for a network that the layout cannot say.
    """
    checkpoint = checkpoint_of(elmo)
    config = checkpoint.config
    if not isinstance(checkpoint.alphabet, Utf8Alphabet):
        raise CheckpointError(f"{folder}: the alphabet has no UTF-8 bytes, as {NAME} files expect")
    if config.lstm.forget_bias != _FORGET_BIAS:
        raise CheckpointError(
            f"{folder}: lstm.forget_bias is {config.lstm.forget_bias}, "
            f"expected {_FORGET_BIAS} in {NAME} files"
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with replacing(target / "weights.hdf5") as temporary, h5py.File(temporary, "w") as file:
        for dataset, array in datasets_of(config, checkpoint.tensors).items():
            file.create_dataset(dataset, data=array)
    with replacing(target / "options.json") as temporary:
        temporary.write_text(json.dumps(_options_of(config), indent=1), encoding="utf-8")


def datasets_of(
    config: ElmoConfig, tensors: Mapping[str, Tensor]
) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """Map tensors named as in `Elmo.state_dict`, or their gradients, to the published layout."""
    return {
        entry.dataset: entry.storage.encode(*(tensors[name] for name in entry.tensors))
        .contiguous()
        .numpy()
        for entry in _layout(config)
    }


# The layout: which dataset holds which tensors, in which order of axes.


@dataclass(frozen=True, slots=True)
class _Storage:
    """How tensors lie in a dataset: `decode` reads them from it, `encode` is its inverse."""

    decode: Callable[[Tensor], tuple[Tensor, ...]]
    encode: Callable[..., Tensor]


_PLAIN = _Storage(lambda stored: (stored,), lambda tensor: tensor)
# Matrices have their input axis first; ours, as torch has it, last.
_MATRIX = _Storage(lambda stored: (stored.T.contiguous(),), lambda tensor: tensor.T)
# (1, width, embedding, count) is ours as (count, embedding, width).
_FILTER = _Storage(
    lambda stored: (stored[0].permute(2, 1, 0).contiguous(),),
    lambda tensor: tensor.permute(2, 1, 0).unsqueeze(0),
)
# The stored table lacks row 0, the row of "no token here".
_TABLE = _Storage(
    lambda stored: (torch.cat((stored.new_zeros(1, stored.shape[1]), stored)),),
    lambda tensor: tensor[1:],
)


def _gates(inputs: int) -> _Storage:
    """Rows of the input first, rows of the recurrence below; columns i, j, f, o as ours."""
    return _Storage(
        lambda stored: (stored[:inputs].T.contiguous(), stored[inputs:].T.contiguous()),
        lambda above, below: torch.cat((above.T, below.T)),
    )


_Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A dataset: the option that makes it exist, and for each axis the option that sizes it."""

    dataset: str
    option: str
    axes: _Axes
    tensors: tuple[str, ...]
    storage: _Storage

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)


def _layout(config: ElmoConfig) -> Iterator[_Entry]:
    cnn, lstm = config.char_cnn, config.lstm
    letters = ("char_cnn.embedding.dim", cnn.embedding)
    filters = ("char_cnn.filters", cnn.width)
    projection = ("lstm.projection_dim", lstm.projection)
    ours = "token_embedder.char_cnn"

    table = (("char_cnn.n_characters", cnn.characters - 1), letters)
    yield _Entry("char_embed", letters[0], table, (f"{ours}.characters",), _TABLE)
    for i, (width, count) in enumerate(cnn.filters):
        name = f"{ours}.convolutions.{i}"
        spans, counts = (filters[0], width), (filters[0], count)
        axes: _Axes = ((filters[0], 1), spans, letters, counts)
        yield _Entry(f"CNN/W_cnn_{i}", filters[0], axes, (f"{name}.weight",), _FILTER)
        yield _Entry(f"CNN/b_cnn_{i}", filters[0], (counts,), (f"{name}.bias",), _PLAIN)
    for k in range(cnn.highways):
        option = "char_cnn.n_highway"
        for part in ("carry", "transform"):
            stored, name = f"CNN_high_{k}", f"{ours}.highways.{k}.{part}"
            axes = (filters, filters)
            yield _Entry(f"{stored}/W_{part}", option, axes, (f"{name}.weight",), _MATRIX)
            yield _Entry(f"{stored}/b_{part}", option, (filters,), (f"{name}.bias",), _PLAIN)
    if cnn.projection:
        name, axes = f"{ours}.projection", (filters, projection)
        yield _Entry("CNN_proj/W_proj", projection[0], axes, (f"{name}.weight",), _MATRIX)
        yield _Entry("CNN_proj/b_proj", projection[0], (projection,), (f"{name}.bias",), _PLAIN)
    gates = ("lstm.dim", 4 * lstm.cell)
    rows = (projection[0], 2 * lstm.projection)
    for r, stack in enumerate(("forward_stack", "backward_stack")):
        for number in range(lstm.layers):
            stored = f"RNN_{r}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            name, option = f"bilm.{stack}.layers.{number}", "lstm.n_layers"
            pair = (f"{name}.input.weight", f"{name}.recurrent.weight")
            yield _Entry(f"{stored}/W_0", option, (rows, gates), pair, _gates(lstm.projection))
            yield _Entry(f"{stored}/B", option, (gates,), (f"{name}.bias",), _PLAIN)
            if lstm.projected:
                output = (f"{name}.projection.weight",)
                axes = (("lstm.dim", lstm.cell), projection)
                yield _Entry(f"{stored}/W_P_0", option, axes, output, _MATRIX)


# The two files and how they find each other.


@dataclass(frozen=True, slots=True)
class _Pair:
    source: Source
    options: str
    weights: str

    @property
    def options_label(self) -> str:
        return self.source.label(self.options)

    @property
    def weights_label(self) -> str:
        return self.source.label(self.weights)

    @property
    def name(self) -> str:
        """What stands before `options.json`, as in the published names, or the folder's name."""
        prefix = PurePosixPath(self.options).name.removesuffix("options.json").rstrip("_-. ")
        return prefix or self.source.name


def _find(path: Path) -> _Pair:
    if path.is_dir():
        return _pair_in(Folder(path))
    if head(path, 4) == ZIP_MAGIC:
        return _pair_in(Zip(path))
    folder = Folder(path.parent)
    if _is_options(path.name):
        prefix = path.name.removesuffix("options.json")
        beside = [file for file in folder.files() if file.startswith(prefix)]
        return _Pair(folder, path.name, _weights_among(folder, beside))
    # elmo_x_weights.hdf5, also elmo_x_weights_PubMed_only.hdf5, belong to elmo_x_options.json
    partner = path.name.partition("weights")[0] + "options.json"
    if "weights" in path.name and (folder.path / partner).is_file():
        return _Pair(folder, partner, path.name)
    return _Pair(folder, _options_among(folder, folder.files()), path.name)


def _pair_in(source: Source) -> _Pair:
    files = source.files()
    return _Pair(source, _options_among(source, files), _weights_among(source, files))


def _options_among(source: Source, files: Sequence[str]) -> str:
    found = [file for file in files if _is_options(file)]
    exact = [file for file in found if PurePosixPath(file).name == "options.json"]
    return _only(source, exact or found, "options.json")


def _weights_among(source: Source, files: Sequence[str]) -> str:
    found = [file for file in files if file.endswith(".hdf5")]
    for names in ("weights.hdf5",), ("model.hdf5",):
        exact = [file for file in found if PurePosixPath(file).name in names]
        if exact:
            return _only(source, exact, names[0])
    ending = [file for file in found if file.endswith("weights.hdf5")]
    return _only(source, ending or found, "weights.hdf5 or model.hdf5")


def _only(source: Source, found: Sequence[str], wanted: str) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise CheckpointError(
            f"{source.path}: holds no {wanted}, expected it beside the other file"
        )
    raise CheckpointError(
        f"{source.path}: holds {', '.join(found[:5])}, expected one {wanted}: name the file itself"
    )


def _is_part(file: str) -> bool:
    return _is_options(file) or file.endswith(".hdf5")


def _is_options(file: str) -> bool:
    return file.endswith("options.json")


# options.json


def _read_options(pair: _Pair) -> "_Options":
    label = pair.options_label
    content = pair.source.read(pair.options, _GREATEST_OPTIONS)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: is not JSON: {error}") from error
    options = _Options(label, values)
    options.section()
    return options


@dataclass(frozen=True, slots=True)
class _Options:
    """The values of an options file, each read with its check."""

    label: str
    values: Any

    def section(self, *keys: str) -> dict[str, Any]:
        """Return the object under these keys; the file itself without any."""
        value = self.values
        for depth, key in enumerate(keys):
            if key not in value:
                name = ".".join(keys[: depth + 1])
                raise CheckpointError(f"{self.label}: {name} is missing, expected an object")
            value = value[key]
            if not isinstance(value, dict):
                raise self.wrong(".".join(keys[: depth + 1]), value, "an object")
        if not isinstance(value, dict):
            raise CheckpointError(
                f"{self.label}: holds a {type(value).__name__}, expected an object"
            )
        return value

    def whole(self, *keys: str, least: int = 1, default: int | None = None) -> int:
        """Return a whole number of at least `least`."""
        name, value = ".".join(keys), self.section(*keys[:-1]).get(keys[-1], default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(name, value, f"a whole number of at least {least}")
        return value

    def clip(self, key: str) -> float | None:
        """Return a clip; absent, null and 0 mean that there is none."""
        value = self.section("lstm").get(key)
        if value is None:
            return None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < float("inf"):
            raise self.wrong(f"lstm.{key}", value, "a number of at least 0, or null")
        return float(value) or None

    def filters(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of width and count."""
        value = self.section("char_cnn").get("filters")
        pairs = value if isinstance(value, list) else []
        sound = all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in pair)
            for pair in pairs
        )
        if not pairs or not sound:
            raise self.wrong("char_cnn.filters", value, "a list of [width, count]")
        return tuple((width, count) for width, count in pairs)

    def wrong(self, name: str, value: object, expected: str) -> CheckpointError:
        return CheckpointError(f"{self.label}: {name} is {value!r:.80}, expected {expected}")


def _config(options: _Options, datasets: Mapping[str, object]) -> ElmoConfig:
    filters = options.filters()
    limit = options.whole("char_cnn", "max_characters_per_token", least=3)
    widest = max(width for width, _ in filters)
    if widest > limit:
        raise options.wrong(
            "char_cnn.max_characters_per_token",
            limit,
            f"at least {widest}, the widest of char_cnn.filters",
        )
    activation = options.section("char_cnn").get("activation")
    if activation not in ("relu", "tanh"):
        raise options.wrong("char_cnn.activation", activation, "'relu' or 'tanh'")
    # Training writes 261, inference wants 262; the network is the same.
    characters = options.section("char_cnn").get("n_characters")
    if characters not in (None, 261, 262):
        raise options.wrong("char_cnn.n_characters", characters, "261 or 262")
    skip = options.section("lstm").get("use_skip_connections", False)
    if not isinstance(skip, bool):
        raise options.wrong("lstm.use_skip_connections", skip, "true or false")
    highways = options.section("char_cnn").get("n_highway")
    width = sum(count for _, count in filters)
    cell, projection = options.whole("lstm", "dim"), options.whole("lstm", "projection_dim")
    try:
        return ElmoConfig(
            CharCNNConfig(
                characters=Utf8Alphabet.size,
                embedding=options.whole("char_cnn", "embedding", "dim"),
                filters=filters,
                highways=0 if highways is None else options.whole("char_cnn", "n_highway", least=0),
                activation=activation,
                max_characters=limit,
                # bilm-tf leaves a projection out where the sizes agree; AllenNLP never does.
                projection=width != projection or "CNN_proj/W_proj" in datasets,
            ),
            LSTMConfig(
                layers=options.whole("lstm", "n_layers", default=1),
                cell=cell,
                projection=projection,
                cell_clip=options.clip("cell_clip"),
                projection_clip=options.clip("proj_clip"),
                skip=skip,
                projected=cell != projection
                or "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in datasets,
                forget_bias=_FORGET_BIAS,
            ),
        )
    except ConfigError as error:
        raise CheckpointError(f"{options.label}: {error}") from error


def _options_of(config: ElmoConfig) -> dict[str, Any]:
    cnn, lstm = config.char_cnn, config.lstm
    return {
        "lstm": {
            "cell_clip": lstm.cell_clip,
            "use_skip_connections": lstm.skip,
            "n_layers": lstm.layers,
            "proj_clip": lstm.projection_clip,
            "projection_dim": lstm.projection,
            "dim": lstm.cell,
        },
        "char_cnn": {
            "embedding": {"dim": cnn.embedding},
            "filters": [list(pair) for pair in cnn.filters],
            "n_highway": cnn.highways,
            "n_characters": Utf8Alphabet.size,
            "max_characters_per_token": cnn.max_characters,
            "activation": cnn.activation,
        },
    }


# weights.hdf5


@contextmanager
def _datasets(pair: _Pair) -> Iterator[dict[str, h5py.Dataset]]:
    """Open the weights: their datasets by path. Links out of the file are not followed."""
    datasets: dict[str, h5py.Dataset] = {}

    def collect(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            datasets[name] = item

    with pair.source.open(pair.weights) as stream:
        try:
            with h5py.File(stream, "r") as file:
                file.visititems(collect)
                yield datasets
        except CheckpointError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(
                f"{pair.weights_label}: is not a whole HDF5 file: {reason}"
            ) from error


def _read_dataset(
    pair: _Pair, entry: _Entry, datasets: Mapping[str, h5py.Dataset]
) -> np.ndarray[Any, np.dtype[np.float32]]:
    label = f"{pair.weights_label}: {entry.dataset}"
    dataset = datasets.get(entry.dataset)
    if dataset is None:
        raise CheckpointError(
            f"{label} is missing, expected shape {entry.shape} by {entry.option} "
            f"in {pair.options_label}"
        )
    found = dataset.shape
    if entry.dataset == "char_embed" and found == (entry.shape[0] + 1, *entry.shape[1:]):
        return _without_pad_row(label, dataset)
    if found != entry.shape:
        raise CheckpointError(
            f"{label} has shape {found}, expected {entry.shape} by {_culprits(entry, found)} "
            f"in {pair.options_label}"
        )
    return _numbers(label, dataset)


def _without_pad_row(label: str, dataset: h5py.Dataset) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Some files have 262 rows: taken where the first is the zero row that readers prepend."""
    table = _numbers(label, dataset)
    if table[0].any():
        raise CheckpointError(f"{label} has 262 rows and the first is not zero, expected 261 rows")
    return np.ascontiguousarray(table[1:])


def _numbers(label: str, dataset: h5py.Dataset) -> np.ndarray[Any, np.dtype[np.float32]]:
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize != 4:
        raise CheckpointError(f"{label} is of type {dataset.dtype}, expected float32")
    stored = dataset.id.get_storage_size()
    if dataset.is_virtual or dataset.external or dataset.nbytes > _GREATEST_RATIO * stored:
        raise CheckpointError(
            f"{label} stores {stored:,} bytes in this file, expected {dataset.nbytes:,}"
        )
    array = np.empty(dataset.shape, dtype=np.float32)
    dataset.read_direct(array)
    return array


def _culprits(entry: _Entry, found: tuple[int, ...] | None) -> str:
    """Name the options that size the axes which differ."""
    if found is None or len(found) != len(entry.axes):
        return entry.option
    pairs = zip(entry.axes, found, strict=True)
    wrong = dict.fromkeys(option for (option, size), other in pairs if size != other)
    return " and ".join(wrong)


def _refuse_unexpected(pair: _Pair, config: ElmoConfig, names: set[str]) -> None:
    if not names:
        return
    name = min(names)
    options = {
        "CNN_high_": ("char_cnn.n_highway", config.char_cnn.highways),
        "CNN/": ("char_cnn.filters", [list(pair) for pair in config.char_cnn.filters]),
        "RNN_": ("lstm.n_layers", config.lstm.layers),
    }
    for prefix, (option, value) in options.items():
        if name.startswith(prefix):
            raise CheckpointError(
                f"{pair.weights_label}: {name} is found, but not expected: "
                f"{option} is {value} in {pair.options_label}"
            )
    raise CheckpointError(f"{pair.weights_label}: {name} is found, but not expected")
