"""State dicts of AllenNLP's modules, which ELMoForManyLangs copied, mapped to `Elmo.state_dict`.

Traps of these modules:

- The gates of an LSTM are stored as input, forget, candidate, output; ours are input, candidate,
  forget, output.
- AllenNLP adds 1 to the bias of the forget gate before it stores it; the published pair does not.
- The gate of a highway multiplies its input; ours multiplies the transformed branch.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from elmo_model.checkpoints.checkpoint import CheckpointError, check_shape
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig


class Stored:
    """The tensors of a file by name below a prefix, each taken once with its expected shape.

    `origin` is the place of the configuration for messages.
    """

    def __init__(
        self, label: str, tensors: Mapping[str, Tensor], origin: str, prefix: str = ""
    ) -> None:
        self._label = label
        self._tensors = tensors
        self._origin = origin
        self._prefix = prefix
        self._left = {name for name in tensors if name.startswith(prefix)}

    def take(self, name: str, *shape: int) -> Tensor:
        """Return floats as float32. Raises CheckpointError if they are missing or differ."""
        name = self._prefix + name
        found = tuple(self._tensors[name].shape) if name in self._tensors else None
        check_shape(f"{self._label}: {name}", found, shape, self._origin)
        tensor = self._tensors[name]
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            kind = f"{tensor.dtype} ({tensor.layout})"
            raise CheckpointError(f"{self._label}: {name} is {kind}, expected strided floats")
        held = tensor.untyped_storage().nbytes()
        if tensor.nbytes > held:  # strides of 0 let a small file declare a huge tensor
            raise CheckpointError(
                f"{self._label}: {name} stores {held:,} bytes, expected {tensor.nbytes:,}"
            )
        self._left.discard(name)
        return tensor.detach().to(torch.float32).contiguous()

    def refuse_more(self) -> None:
        """Raise CheckpointError if a tensor below the prefix was not taken."""
        if self._left:
            raise CheckpointError(
                f"{self._label}: {min(self._left)} is found, but not expected by {self._origin}"
            )


def char_cnn_of(
    stored: Stored, cnn: CharCNNConfig, convolution: str, highway: str
) -> dict[str, Tensor]:
    """Return convolutions and highways. The two names hold {} in place of the number."""
    ours = "token_embedder.char_cnn"
    tensors: dict[str, Tensor] = {}
    for number, (span, count) in enumerate(cnn.filters):
        theirs, name = convolution.format(number), f"{ours}.convolutions.{number}"
        shape = (count, cnn.embedding, span)
        tensors[f"{name}.weight"] = stored.take(f"{theirs}.weight", *shape)
        tensors[f"{name}.bias"] = stored.take(f"{theirs}.bias", count)
    for number in range(cnn.highways):
        theirs, name = highway.format(number), f"{ours}.highways.{number}"
        for part, columns in (("weight", (cnn.width,)), ("bias", ())):
            halves = stored.take(f"{theirs}.{part}", 2 * cnn.width, *columns)
            transform, gate = halves.chunk(2)
            tensors[f"{name}.transform.{part}"] = transform.clone()
            # 1 - sigmoid(x) is sigmoid(-x).
            tensors[f"{name}.carry.{part}"] = -gate
    return tensors


def projection_of(stored: Stored, name: str, ours: str, config: ElmoConfig) -> dict[str, Tensor]:
    """Return the projection to the token vector; it belongs to our module `ours`."""
    width = config.lstm.projection
    return {
        f"{ours}.projection.weight": stored.take(f"{name}.weight", width, config.token_width),
        f"{ours}.projection.bias": stored.take(f"{name}.bias", width),
    }


def bilm_of(stored: Stored, lstm: LSTMConfig) -> dict[str, Tensor]:
    """Return the LSTMs of both directions.

    `forget_bias`, which our LSTM adds at run time, is subtracted from the stored bias.
    """
    tensors: dict[str, Tensor] = {}
    gates, width = 4 * lstm.cell, lstm.projection
    for direction in ("forward", "backward"):
        for number in range(lstm.layers):
            theirs = f"{direction}_layer_{number}"
            name = f"bilm.{direction}_stack.layers.{number}"
            inputs = stored.take(f"{theirs}.input_linearity.weight", gates, width)
            recurrent = stored.take(f"{theirs}.state_linearity.weight", gates, width)
            bias = _gates(stored.take(f"{theirs}.state_linearity.bias", gates))
            # Rounds by at most 6e-8: the subtraction of 1 is exact for values from 0.5 to 2.
            bias[2 * lstm.cell : 3 * lstm.cell] -= lstm.forget_bias
            tensors[f"{name}.input.weight"] = _gates(inputs)
            tensors[f"{name}.recurrent.weight"] = _gates(recurrent)
            tensors[f"{name}.bias"] = bias
            tensors[f"{name}.projection.weight"] = stored.take(
                f"{theirs}.state_projection.weight", width, lstm.cell
            )
    return tensors


def _gates(stored: Tensor) -> Tensor:
    """Map (4 cells, ...) rows of the gates i, f, candidate, o to i, candidate, f, o."""
    i, f, j, o = stored.chunk(4)
    return torch.cat((i, j, f, o))
