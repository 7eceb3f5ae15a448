"""A checkpoint of any format in memory: configuration, alphabet and tensors."""

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from elmo_model.errors import ElmoError
from elmo_model.network.config import ElmoConfig
from elmo_model.network.description import Description
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.task import Task
from elmo_model.text.alphabets import Alphabet, WordAlphabet


class CheckpointError(ElmoError):
    """A damaged, unknown or contradictory checkpoint. One line: file, key, found, expected."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint in memory.

    `tensors` are float32, with the names of `ElmoNetwork.state_dict`. `tasks` are the scalar mixes
    that were trained with the model. `notes` are sentences about values that the files lack, and
    the values that were assumed.
    """

    name: str
    format: str
    config: ElmoConfig
    alphabet: Alphabet
    tensors: Mapping[str, Tensor]
    tasks: tuple[Task, ...] = ()
    notes: tuple[str, ...] = ()
    description: Description = field(default=Description())

    def origin(self) -> Origin:
        """Return name, format and revision. The revision does not depend on the format."""
        digits = revision(self.config, self.tensors, self.alphabet)
        return Origin(self.name, self.format, digits, self.description)

    def build(self) -> ElmoNetwork:
        """Return the network with these tensors, which are neither initialised first nor copied."""
        with torch.device("meta"):
            elmo = ElmoNetwork(self.config, self.alphabet, self.origin(), tasks=self.tasks)
        elmo.load_state_dict(dict(self.tensors), strict=True, assign=True)
        return elmo.eval()


def tensors_of(config: ElmoConfig, alphabet: Alphabet) -> dict[str, Tensor]:
    """Return the tensors that a configuration needs by name, on the meta device: shapes alone."""
    with torch.device("meta"):
        return ElmoNetwork(config, alphabet, Origin("", "", "")).state_dict()


def check_shape(
    label: str, found: tuple[int, ...] | None, expected: tuple[int, ...], origin: str
) -> None:
    """Raise CheckpointError for a tensor of another shape, or a missing one: `found` is None."""
    if found is None:
        raise CheckpointError(f"{label} is missing, expected shape {expected} by {origin}")
    if found != expected:
        raise CheckpointError(f"{label} has shape {found}, expected {expected} by {origin}")


def checkpoint_of(elmo: ElmoNetwork) -> Checkpoint:
    """Return a network as a checkpoint that can be written.

    Raises CheckpointError for a network whose weights are not float32.
    """
    tensors = {name: tensor.detach().cpu() for name, tensor in elmo.state_dict().items()}
    for name in tensors_of(elmo.config, elmo.alphabet):
        if name not in tensors or tensors[name].dtype != torch.float32:
            raise CheckpointError(
                f"{elmo.origin.name}: {name} is not there as float32, "
                f"expected a network as it was loaded or trained"
            )
    origin = elmo.origin
    return Checkpoint(
        origin.name,
        origin.format,
        elmo.config,
        elmo.alphabet,
        tensors,
        elmo.tasks,
        description=origin.description,
    )


def round_weights(elmo: ElmoNetwork, dtype: torch.dtype) -> None:
    """Round the weights of a network, in place, to what a 16-bit `dtype` can hold.

    The network stays float32 and gets the revision of its new weights. Raises CheckpointError,
    which names the tensor, for a number that is too large; the network is then as it was.
    """
    rounded = {
        name: tensor.to(dtype).to(tensor.dtype) for name, tensor in elmo.state_dict().items()
    }
    for name, tensor in rounded.items():
        if not tensor.isfinite().all():
            largest = elmo.state_dict()[name].abs().max().item()
            raise CheckpointError(
                f"{elmo.origin.name}: {name} holds {largest:.4g}, expected at most "
                f"{torch.finfo(dtype).max:.6g}, the largest {str(dtype).removeprefix('torch.')}"
            )
    elmo.load_state_dict(rounded, assign=True)  # the old ones may be read-only
    digest = revision(elmo.config, checkpoint_of(elmo).tensors, elmo.alphabet)
    elmo.origin = replace(elmo.origin, revision=digest)


def revision(
    config: ElmoConfig, tensors: Mapping[str, Tensor], alphabet: Alphabet | None = None
) -> str:
    """Return the first 12 hexadecimal digits of a SHA-256 over everything that decides vectors.

    The digest covers the configuration, the names and numbers of the tensors, and the dictionaries
    of a WordAlphabet. Two networks with equal revisions give equal vectors.
    """
    names = sorted(tensors)
    with ThreadPoolExecutor() as pool:  # hashlib releases the GIL
        digests = pool.map(lambda name: _digest(tensors[name]), names)
        whole = hashlib.sha256(_text(config.to_dict()))
        if isinstance(alphabet, WordAlphabet):
            whole.update(hashlib.sha256(_text(alphabet.to_dict())).digest())
        for name, digest in zip(names, digests, strict=True):
            whole.update(name.encode() + b"\0" + digest)
    return whole.hexdigest()[:12]


def _text(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True).encode()


def _digest(tensor: Tensor) -> bytes:
    digest = hashlib.sha256(f"{tensor.dtype}{tuple(tensor.shape)}\0".encode())
    digest.update(tensor.detach().cpu().reshape(-1).numpy().data)
    return digest.digest()
