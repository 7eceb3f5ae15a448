"""The layout of published weights: the array of each tensor, and its order of axes.

bilm-tf wrote the first such files, AllenNLP reads and writes the same. Traps of the layout:

- Matrices have the input axis first, torch has it last.
- The character table lacks row 0, the row of "no token here". Some files do hold it.
- `carry` multiplies the transformed branch of a highway, not its input.
- The gates of an LSTM are in the order input, candidate, forget, output.
- 1 is added to the bias of the forget gate at run time; it is not in the file.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError, check_shape
from elmo_model.network.config import CharCNNConfig, ElmoConfig

WORDS = "embedding"
"""The table of word-input models. Models with characters may hold it too, unused."""
FORGET_BIAS = 1.0
"""bilm-tf adds this to the stored bias of the forget gate at run time."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of an HDF5 file or a TensorFlow checkpoint by name, each read on demand.

    `label` is the name of the file for messages. A shape is None where an array has none. `numbers`
    reads an array; it raises CheckpointError for one that is not float32 or is damaged.
    """

    label: str
    shapes: Mapping[str, tuple[int, ...] | None]
    numbers: Callable[[str], NDArray[np.float32]]

    def sizes(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of an array. Raises CheckpointError where it has not so many axes."""
        shape = self.shapes.get(name)
        if shape is None or len(shape) != axes:
            raise CheckpointError(
                f"{self.label}: {name} is missing, expected a tensor of {axes} axes"
            )
        return shape

    def count(self, name: str) -> int:
        """Return how many arrays have a name with {} in place of their number, from 0."""
        return next(n for n in itertools.count() if name.format(n) not in self.shapes)


def decode(
    arrays: Arrays, config: ElmoConfig, origin: str, table: Arrays | None = None
) -> dict[str, Tensor]:
    """Return the tensors of a network with the names of `Elmo.state_dict`, without an alignment.

    `origin` is the place of the configuration for messages, such as "in options.json". `table`
    holds the words if they are in another file. Raises CheckpointError for an array that is missing
    or has another shape; arrays that the configuration does not need are not read.
    """
    tensors: dict[str, Tensor] = {}
    for entry in entries(config):
        place = table if table is not None and entry.array == WORDS else arrays
        stored = torch.from_numpy(_read(place, entry, origin))
        tensors.update(zip(entry.tensors, entry.storage.decode(stored), strict=True))
    return tensors


def encode(config: ElmoConfig, tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Map the tensors of `Elmo.state_dict`, or their gradients, to arrays of the layout."""
    return {
        entry.array: entry.storage.encode(*(tensors[name] for name in entry.tensors))
        .contiguous()
        .numpy()
        for entry in entries(config)
    }


def refuse_unexpected(
    arrays: Arrays, config: ElmoConfig, origin: str, tolerated: Collection[str] = ()
) -> None:
    """Raise CheckpointError for an array that the configuration does not need, nor `tolerated` has.

    The message names the option that rules the array out.
    """
    expected = {entry.array for entry in entries(config)}
    names = set(arrays.shapes) - expected - set(tolerated)
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
    """How an array stores tensors. `decode` maps the array to them, `encode` is its inverse."""

    decode: Callable[[Tensor], tuple[Tensor, ...]]
    encode: Callable[..., Tensor]


_PLAIN = Storage(lambda stored: (stored,), lambda tensor: tensor)
# (input, output) to (output, input).
_MATRIX = Storage(lambda stored: (stored.T.contiguous(),), lambda tensor: tensor.T)
# (1, width, embedding, count) to (count, embedding, width).
_FILTER = Storage(
    lambda stored: (stored[0].permute(2, 1, 0).contiguous(),),
    lambda tensor: tensor.permute(2, 1, 0).unsqueeze(0),
)
# (261, embedding) to (262, embedding): row 0, of "no token here", is zero and not stored.
_TABLE = Storage(
    lambda stored: (torch.cat((stored.new_zeros(1, stored.shape[1]), stored)),),
    lambda tensor: tensor[1:],
)


def _gates(inputs: int) -> Storage:
    """Map (inputs + outputs, 4 cells) to the input matrix and the recurrent matrix, transposed.

    The columns are the gates input, candidate, forget, output, in the order of our LSTM.
    """
    return Storage(
        lambda stored: (stored[:inputs].T.contiguous(), stored[inputs:].T.contiguous()),
        lambda above, below: torch.cat((above.T, below.T)),
    )


_Axes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of the layout, and the tensors that it stores.

    `option` is the option that makes it exist; `axes` has the option and the size of each axis.
    Both serve messages.
    """

    array: str
    option: str
    axes: _Axes
    tensors: tuple[str, ...]
    storage: Storage

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)


def entries(config: ElmoConfig) -> Iterator[StoredArray]:
    """Yield all arrays that a configuration needs."""
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
    found = arrays.shapes.get(entry.array)
    if entry.array == "char_embed" and found == (entry.shape[0] + 1, *entry.shape[1:]):
        return _without_pad_row(label, arrays.numbers(entry.array))
    check_shape(label, found, entry.shape, f"{_culprits(entry, found)} {origin}")
    return arrays.numbers(entry.array)


def _without_pad_row(label: str, table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map a table of 262 rows to 261. Raises CheckpointError if row 0 is not zero."""
    if table[0].any():
        raise CheckpointError(f"{label} has 262 rows and the first is not zero, expected 261 rows")
    return np.ascontiguousarray(table[1:])


def _culprits(entry: StoredArray, found: tuple[int, ...] | None) -> str:
    """Return the options of the axes whose sizes differ."""
    if found is None or len(found) != len(entry.axes):
        return entry.option
    pairs = zip(entry.axes, found, strict=True)
    wrong = dict.fromkeys(option for (option, size), other in pairs if size != other)
    return " and ".join(wrong)
