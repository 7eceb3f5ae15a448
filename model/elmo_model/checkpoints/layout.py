"""The layout of published weights: the array of each tensor, and its order of axes.

bilm-tf wrote the first such files, AllenNLP reads and writes the same. Traps of the layout:

- Matrices have the input axis first, torch has it last.
- The character table lacks row 0, the row of "no token here". Some files do hold it.
- `carry` multiplies the transformed branch of a highway, not its input.
- The gates of an LSTM are in the order input, candidate, forget, output.
- 1 is added to the bias of the forget gate at run time; it is not in the file.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError, check_shape, tensors_of
from elmo_model.network.config import CharCNNConfig, ElmoConfig
from elmo_model.text.alphabets import Alphabet

WORDS = "embedding"
"""The table of word-input models. Models with characters may hold it too, unused."""
FORGET_BIAS = 1.0
"""bilm-tf adds this to the stored bias of the forget gate at run time."""

_CHARACTERS = "char_embed"


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a file by name, each read on demand.

    `label` is the name of the file for messages. A shape is None where an array has none. `read`
    returns an array as a float32 tensor; it raises CheckpointError for one of another type, and for
    a damaged one.
    """

    label: str
    shapes: Mapping[str, tuple[int, ...] | None]
    read: Callable[[str], Tensor]

    def sizes(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of an array. Raises CheckpointError where it has not so many axes."""
        shape = self.shapes.get(name)
        if shape is None or len(shape) != axes:
            fault = "is missing" if shape is None else f"has shape {shape}"
            raise CheckpointError(f"{self.label}: {name} {fault}, expected an array of {axes} axes")
        return shape

    def count(self, name: str) -> int:
        """Return how many arrays have a name with {} in place of their number, from 0."""
        return next(n for n in itertools.count() if name.format(n) not in self.shapes)

    def refuse_unexpected(
        self, expected: Iterable[str], origin: str, tolerated: Iterable[str] = ()
    ) -> None:
        """Raise CheckpointError for an array that is neither expected by `origin` nor tolerated."""
        if names := set(self.shapes).difference(expected, tolerated):
            raise CheckpointError(
                f"{self.label}: {min(names)} is found, but not expected by {origin}"
            )

    def take(self, name: str, shape: tuple[int, ...], origin: str) -> Tensor:
        """Return an array of this shape, which `origin` asks for. Raises CheckpointError."""
        check_shape(f"{self.label}: {name}", self.shapes.get(name), shape, origin)
        return self.read(name)


@dataclass(frozen=True, slots=True)
class Storage:
    """How an array stores tensors.

    `decode` maps the array to the tensors, `encode` is its inverse, and `shape` maps the shapes of
    the tensors to the shape of the array. `encode` of tensors on the meta device would tell the
    shape as well, but some operations there import torch's compiler, which takes 2.5 s.
    """

    decode: Callable[[Tensor], tuple[Tensor, ...]]
    encode: Callable[..., Tensor]
    shape: Callable[..., tuple[int, ...]] = lambda tensor: tensor


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of a layout, the tensors of `ElmoNetwork.state_dict` that it stores, and how."""

    array: str
    tensors: tuple[str, ...]
    storage: Storage


PLAIN = Storage(lambda stored: (stored,), lambda tensor: tensor)
# (input, output) to (output, input).
_MATRIX = Storage(
    lambda stored: (stored.T.contiguous(),), lambda tensor: tensor.T, lambda shape: shape[::-1]
)
# (1, width, embedding, count) to (count, embedding, width).
_FILTER = Storage(
    lambda stored: (stored[0].permute(2, 1, 0).contiguous(),),
    lambda tensor: tensor.permute(2, 1, 0).unsqueeze(0),
    lambda shape: (1, *shape[::-1]),
)
# (261, embedding) to (262, embedding): row 0, of "no token here", is zero and not stored.
_TABLE = Storage(
    lambda stored: (torch.cat((stored.new_zeros(1, stored.shape[1]), stored)),),
    lambda tensor: tensor[1:],
    lambda shape: (shape[0] - 1, *shape[1:]),
)


def _gates(inputs: int) -> Storage:
    """Map (inputs + outputs, 4 cells) to the input matrix and the recurrent matrix, transposed.

    The columns are the gates input, candidate, forget, output, in the order of our LSTM.
    """
    return Storage(
        lambda stored: (stored[:inputs].T.contiguous(), stored[inputs:].T.contiguous()),
        lambda above, below: torch.cat((above.T, below.T)),
        lambda above, below: (above[1] + below[1], above[0]),
    )


def decode(
    arrays: Arrays,
    stored: Iterable[StoredArray],
    config: ElmoConfig,
    alphabet: Alphabet,
    origin: str,
    tolerated: Iterable[str] = (),
) -> dict[str, Tensor]:
    """Return the tensors that the `stored` arrays hold, with the names of `ElmoNetwork.state_dict`.

    A network of the configuration has their shapes. `origin` is the place of the configuration for
    messages, such as the path of an options file. Raises CheckpointError for an array that is
    missing, has another shape, or is neither stored nor tolerated.
    """
    # before a network is made, which may have a million layers
    wanted = list(_present(arrays, stored, origin))
    arrays.refuse_unexpected((entry.array for entry in wanted), origin, tolerated)
    needed = tensors_of(config, alphabet)
    tensors: dict[str, Tensor] = {}
    for entry in wanted:
        shape = entry.storage.shape(*(tuple(needed[name].shape) for name in entry.tensors))
        array = _read(arrays, entry.array, shape, origin)
        tensors.update(zip(entry.tensors, entry.storage.decode(array), strict=True))
    return tensors


def encode(config: ElmoConfig, tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Map the tensors of `ElmoNetwork.state_dict`, or their gradients, to arrays of the layout."""
    return {
        entry.array: entry.storage.encode(*(tensors[name] for name in entry.tensors))
        .contiguous()
        .numpy()
        for entry in entries(config)
    }


def entries(config: ElmoConfig) -> Iterator[StoredArray]:
    """Yield all arrays of the published layout that a configuration needs."""
    if config.words:
        yield StoredArray(WORDS, ("token_embedder.words",), PLAIN)
    if config.char_cnn:
        yield from _token_entries(config.char_cnn)
    for r, stack in enumerate(("forward_stack", "backward_stack")):
        for number in range(config.lstm.layers):
            array = f"RNN_{r}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            name = f"bilm.{stack}.layers.{number}"
            pair = (f"{name}.input.weight", f"{name}.recurrent.weight")
            yield StoredArray(f"{array}/W_0", pair, _gates(config.lstm.projection))
            yield StoredArray(f"{array}/B", (f"{name}.bias",), PLAIN)
            if config.lstm.projected:
                yield StoredArray(f"{array}/W_P_0", (f"{name}.projection.weight",), _MATRIX)


def _token_entries(cnn: CharCNNConfig) -> Iterator[StoredArray]:
    ours = "token_embedder.char_cnn"
    yield StoredArray(_CHARACTERS, (f"{ours}.characters",), _TABLE)
    for i in range(len(cnn.filters)):
        name = f"{ours}.convolutions.{i}"
        yield StoredArray(f"CNN/W_cnn_{i}", (f"{name}.weight",), _FILTER)
        yield StoredArray(f"CNN/b_cnn_{i}", (f"{name}.bias",), PLAIN)
    for k in range(cnn.highways):
        for part in ("carry", "transform"):
            array, name = f"CNN_high_{k}", f"{ours}.highways.{k}.{part}"
            yield StoredArray(f"{array}/W_{part}", (f"{name}.weight",), _MATRIX)
            yield StoredArray(f"{array}/b_{part}", (f"{name}.bias",), PLAIN)
    if cnn.projection:
        yield StoredArray("CNN_proj/W_proj", (f"{ours}.projection.weight",), _MATRIX)
        yield StoredArray("CNN_proj/b_proj", (f"{ours}.projection.bias",), PLAIN)


def _present(arrays: Arrays, stored: Iterable[StoredArray], origin: str) -> Iterator[StoredArray]:
    for entry in stored:
        if entry.array not in arrays.shapes:
            raise CheckpointError(f"{arrays.label}: {entry.array} is missing, expected by {origin}")
        yield entry


def _read(arrays: Arrays, name: str, shape: tuple[int, ...], origin: str) -> Tensor:
    if name == _CHARACTERS and arrays.shapes[name] == (shape[0] + 1, *shape[1:]):
        table = arrays.read(name)
        if table[0].any():
            raise CheckpointError(
                f"{arrays.label}: {name} has {len(table)} rows and the first is not zero, "
                f"expected {shape[0]} rows"
            )
        return table[1:].contiguous()
    return arrays.take(name, shape, origin)
