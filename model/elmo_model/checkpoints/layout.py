"""The published layout: which array holds which tensors, in which order of axes."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.config import CharCNNConfig, ElmoConfig

WORDS = "embedding"  # the table of word-input models, which may also lie beside the characters
# bilm-tf adds 1 to the stored bias of the forget gate at run time.
FORGET_BIAS = 1.0


class Arrays(Protocol):
    """Arrays by their published names, wherever they lie."""

    @property
    def label(self) -> str:
        """How messages call the file."""

    def names(self) -> Collection[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of an array without reading it."""

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return an array. Raises CheckpointError where it is of another type or not whole."""


def decode(
    arrays: Arrays, config: ElmoConfig, origin: str, table: Arrays | None = None
) -> dict[str, Tensor]:
    """Return the tensors of a network as `Elmo.state_dict` names them, without an alignment.

    `origin` says in messages where the configuration was written: "in options.json". A `table` of
    words may lie apart from the other arrays. Raises CheckpointError for an array that is missing
    or does not fit; others are left unread.
    """
    tensors: dict[str, Tensor] = {}
    for entry in entries(config):
        place = table if table is not None and entry.array == WORDS else arrays
        stored = torch.from_numpy(_read(place, entry, origin))
        tensors.update(zip(entry.tensors, entry.storage.decode(stored), strict=True))
    return tensors


def encode(config: ElmoConfig, tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Map tensors named as in `Elmo.state_dict`, or their gradients, to the published layout."""
    return {
        entry.array: entry.storage.encode(*(tensors[name] for name in entry.tensors))
        .contiguous()
        .numpy()
        for entry in entries(config)
    }


def refuse_unexpected(
    arrays: Arrays, config: ElmoConfig, origin: str, tolerated: Collection[str] = ()
) -> None:
    """Raise CheckpointError for an array that this configuration has no use for."""
    expected = {entry.array for entry in entries(config)}
    names = set(arrays.names()) - expected - set(tolerated)
    if not names:
        return
    name, cnn = min(names), config.char_cnn
    options: dict[str, tuple[str, object]] = {"RNN_": ("lstm.n_layers", config.lstm.layers)}
    if cnn:
        options["CNN_high_"] = ("char_cnn.n_highway", cnn.highways)
        options["CNN/"] = ("char_cnn.filters", [list(pair) for pair in cnn.filters])
    for prefix, (option, value) in options.items():
        if name.startswith(prefix):
            raise CheckpointError(
                f"{arrays.label}: {name} is found, but not expected: {option} is {value} {origin}"
            )
    raise CheckpointError(f"{arrays.label}: {name} is found, but not expected")


@dataclass(frozen=True, slots=True)
class Storage:
    """How tensors lie in an array: `decode` reads them from it, `encode` is its inverse."""

    decode: Callable[[Tensor], tuple[Tensor, ...]]
    encode: Callable[..., Tensor]


_PLAIN = Storage(lambda stored: (stored,), lambda tensor: tensor)
# Matrices have their input axis first; ours, as torch has it, last.
_MATRIX = Storage(lambda stored: (stored.T.contiguous(),), lambda tensor: tensor.T)
# (1, width, embedding, count) is ours as (count, embedding, width).
_FILTER = Storage(
    lambda stored: (stored[0].permute(2, 1, 0).contiguous(),),
    lambda tensor: tensor.permute(2, 1, 0).unsqueeze(0),
)
# The stored table lacks row 0, the row of "no token here".
_TABLE = Storage(
    lambda stored: (torch.cat((stored.new_zeros(1, stored.shape[1]), stored)),),
    lambda tensor: tensor[1:],
)


def _gates(inputs: int) -> Storage:
    """Rows of the input first, rows of the recurrence below; columns i, j, f, o as ours."""
    return Storage(
        lambda stored: (stored[:inputs].T.contiguous(), stored[inputs:].T.contiguous()),
        lambda above, below: torch.cat((above.T, below.T)),
    )


_Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array: the option that makes it exist, and for each axis the option that sizes it."""

    array: str
    option: str
    axes: _Axes
    tensors: tuple[str, ...]
    storage: Storage

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)


def entries(config: ElmoConfig) -> Iterator[StoredArray]:
    """Return all arrays that this configuration asks for."""
    projection = ("lstm.projection_dim", config.lstm.projection)
    if config.words:
        axes: _Axes = (("the vocabulary", config.words.count), projection)
        yield StoredArray(WORDS, "the vocabulary", axes, ("token_embedder.words",), _PLAIN)
    if config.char_cnn:
        yield from _token_entries(config.char_cnn, projection)
    yield from _bilm_entries(config)


def _token_entries(cnn: CharCNNConfig, projection: tuple[str, int]) -> Iterator[StoredArray]:
    letters = ("char_cnn.embedding.dim", cnn.embedding)
    filters = ("char_cnn.filters", cnn.width)
    ours = "token_embedder.char_cnn"

    table = (("char_cnn.n_characters", cnn.characters - 1), letters)
    yield StoredArray("char_embed", letters[0], table, (f"{ours}.characters",), _TABLE)
    for i, (width, count) in enumerate(cnn.filters):
        name = f"{ours}.convolutions.{i}"
        spans, counts = (filters[0], width), (filters[0], count)
        axes: _Axes = ((filters[0], 1), spans, letters, counts)
        yield StoredArray(f"CNN/W_cnn_{i}", filters[0], axes, (f"{name}.weight",), _FILTER)
        yield StoredArray(f"CNN/b_cnn_{i}", filters[0], (counts,), (f"{name}.bias",), _PLAIN)
    for k in range(cnn.highways):
        option = "char_cnn.n_highway"
        for part in ("carry", "transform"):
            stored, name = f"CNN_high_{k}", f"{ours}.highways.{k}.{part}"
            axes = (filters, filters)
            yield StoredArray(f"{stored}/W_{part}", option, axes, (f"{name}.weight",), _MATRIX)
            yield StoredArray(f"{stored}/b_{part}", option, (filters,), (f"{name}.bias",), _PLAIN)
    if cnn.projection:
        name, axes = f"{ours}.projection", (filters, projection)
        yield StoredArray("CNN_proj/W_proj", projection[0], axes, (f"{name}.weight",), _MATRIX)
        yield StoredArray(
            "CNN_proj/b_proj", projection[0], (projection,), (f"{name}.bias",), _PLAIN
        )


def _bilm_entries(config: ElmoConfig) -> Iterator[StoredArray]:
    lstm = config.lstm
    projection = ("lstm.projection_dim", lstm.projection)
    gates = ("lstm.dim", 4 * lstm.cell)
    rows = (projection[0], 2 * lstm.projection)
    for r, stack in enumerate(("forward_stack", "backward_stack")):
        for number in range(lstm.layers):
            stored = f"RNN_{r}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            name, option = f"bilm.{stack}.layers.{number}", "lstm.n_layers"
            pair = (f"{name}.input.weight", f"{name}.recurrent.weight")
            yield StoredArray(f"{stored}/W_0", option, (rows, gates), pair, _gates(lstm.projection))
            yield StoredArray(f"{stored}/B", option, (gates,), (f"{name}.bias",), _PLAIN)
            if lstm.projected:
                output = (f"{name}.projection.weight",)
                axes: _Axes = (("lstm.dim", lstm.cell), projection)
                yield StoredArray(f"{stored}/W_P_0", option, axes, output, _MATRIX)


def _read(arrays: Arrays, entry: StoredArray, origin: str) -> NDArray[np.float32]:
    label = f"{arrays.label}: {entry.array}"
    if entry.array not in arrays.names():
        raise CheckpointError(
            f"{label} is missing, expected shape {entry.shape} by {entry.option} {origin}"
        )
    found = arrays.shape(entry.array)
    if entry.array == "char_embed" and found == (entry.shape[0] + 1, *entry.shape[1:]):
        return _without_pad_row(label, arrays.numbers(entry.array))
    if found != entry.shape:
        raise CheckpointError(
            f"{label} has shape {found}, expected {entry.shape} by "
            f"{_culprits(entry, found)} {origin}"
        )
    return arrays.numbers(entry.array)


def _without_pad_row(label: str, table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Some files have 262 rows: taken where the first is the zero row that readers prepend."""
    if table[0].any():
        raise CheckpointError(f"{label} has 262 rows and the first is not zero, expected 261 rows")
    return np.ascontiguousarray(table[1:])


def _culprits(entry: StoredArray, found: tuple[int, ...] | None) -> str:
    """Name the options that size the axes which differ."""
    if found is None or len(found) != len(entry.axes):
        return entry.option
    pairs = zip(entry.axes, found, strict=True)
    wrong = dict.fromkeys(option for (option, size), other in pairs if size != other)
    return " and ".join(wrong)
