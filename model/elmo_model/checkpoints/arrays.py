"""Arrays of a file by name, and how they store the tensors of a network."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError, check_shape, tensors_of
from elmo_model.network.config import ElmoConfig
from elmo_model.text.alphabets import Alphabet


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
    """An array of a layout, the tensors of `ElmoNetwork.state_dict` that it stores, and how.

    With `may_hold_row_0` the array may have one more row, of zeros, before the stored ones.
    """

    array: str
    tensors: tuple[str, ...]
    storage: Storage
    may_hold_row_0: bool = False


PLAIN = Storage(lambda stored: (stored,), lambda tensor: tensor)


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
        array = _read(arrays, entry, shape, origin)
        tensors.update(zip(entry.tensors, entry.storage.decode(array), strict=True))
    return tensors


def _present(arrays: Arrays, stored: Iterable[StoredArray], origin: str) -> Iterator[StoredArray]:
    for entry in stored:
        if entry.array not in arrays.shapes:
            raise CheckpointError(f"{arrays.label}: {entry.array} is missing, expected by {origin}")
        yield entry


def _read(arrays: Arrays, entry: StoredArray, shape: tuple[int, ...], origin: str) -> Tensor:
    name = entry.array
    if entry.may_hold_row_0 and arrays.shapes[name] == (shape[0] + 1, *shape[1:]):
        table = arrays.read(name)
        if table[0].any():
            raise CheckpointError(
                f"{arrays.label}: {name} has {len(table)} rows and the first is not zero, "
                f"expected {shape[0]} rows"
            )
        return table[1:].contiguous()
    return arrays.take(name, shape, origin)
