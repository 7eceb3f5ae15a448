"""State dicts of AllenNLP's modules, which ELMoForManyLangs copied, mapped to `ElmoNetwork`'s.

Traps of these modules:

- The gates of an LSTM are stored as input, forget, candidate, output; ours are input, candidate,
  forget, output.
- AllenNLP adds 1 to the bias of the forget gate before it stores it; the published pair does not.
- The gate of a highway multiplies its input; ours multiplies the transformed branch.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from elmo_model.checkpoints.arrays import PLAIN, Arrays, Storage, StoredArray
from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.network.config import CharCNNConfig, LSTMConfig


def arrays_of(label: str, tensors: Mapping[str, Tensor]) -> Arrays:
    """Return the tensors of the file `label` as arrays, which are floats and store their bytes."""

    def read(name: str) -> Tensor:
        tensor = tensors[name]
        if not tensor.is_floating_point() or tensor.layout != torch.strided:
            kind = f"{tensor.dtype} ({tensor.layout})"
            raise CheckpointError(f"{label}: {name} is {kind}, expected strided floats")
        stored = tensor.untyped_storage().nbytes()
        if tensor.nbytes > stored:  # strides of 0 let a small file declare a huge tensor
            raise CheckpointError(
                f"{label}: {name} stores {stored:,} bytes, expected {tensor.nbytes:,}"
            )
        return tensor.detach().to(torch.float32).contiguous()

    return Arrays(label, {name: tuple(each.shape) for name, each in tensors.items()}, read)


def _highway(stored: Tensor) -> tuple[Tensor, ...]:
    """Map (2F, ...) rows of the transformed branch and the gate to `transform` and `carry`."""
    transform, gate = stored.chunk(2)
    return transform.clone(), -gate  # 1 - sigmoid(x) is sigmoid(-x)


def _gates(stored: Tensor) -> Tensor:
    """Map (4 cells, ...) rows of the gates i, f, candidate, o to i, candidate, f, o, and back."""
    i, f, j, o = stored.chunk(4)
    return torch.cat((i, j, f, o))


def _bias(lstm: LSTMConfig) -> Storage:
    """Subtract what our LSTM adds to the bias of the forget gate at run time.

    Rounds by at most 6e-8: the subtraction of 1 is exact for values from 0.5 to 2.
    """

    def shifted(bias: Tensor, addend: float) -> Tensor:
        bias = bias.clone()
        bias[2 * lstm.cell : 3 * lstm.cell] += addend
        return bias

    return Storage(
        lambda stored: (shifted(_gates(stored), -lstm.forget_bias),),
        lambda bias: _gates(shifted(bias, lstm.forget_bias)),
    )


_HIGHWAY = Storage(
    _highway,
    lambda transform, carry: torch.cat((transform, -carry)),
    lambda transform, carry: (transform[0] + carry[0], *transform[1:]),
)
_GATES = Storage(lambda stored: (_gates(stored),), _gates)


def char_cnn_entries(cnn: CharCNNConfig, convolution: str, highway: str) -> Iterator[StoredArray]:
    """Yield convolutions and highways. The two names hold {} in place of the number."""
    ours = "token_embedder.char_cnn"
    for part in ("weight", "bias"):
        for number in range(len(cnn.filters)):
            name = f"{ours}.convolutions.{number}.{part}"
            yield StoredArray(f"{convolution.format(number)}.{part}", (name,), PLAIN)
        for number in range(cnn.highways):
            name = f"{ours}.highways.{number}"
            pair = (f"{name}.transform.{part}", f"{name}.carry.{part}")
            yield StoredArray(f"{highway.format(number)}.{part}", pair, _HIGHWAY)


def projection_entries(name: str, ours: str) -> Iterator[StoredArray]:
    """Yield the projection to the token vector; it belongs to our module `ours`."""
    for part in ("weight", "bias"):
        yield StoredArray(f"{name}.{part}", (f"{ours}.projection.{part}",), PLAIN)


def bilm_entries(lstm: LSTMConfig, prefix: str = "") -> Iterator[StoredArray]:
    """Yield the LSTMs of both directions, whose names begin with `prefix`."""
    for direction in ("forward", "backward"):
        for number in range(lstm.layers):
            theirs = f"{prefix}{direction}_layer_{number}"
            name = f"bilm.{direction}_stack.layers.{number}"
            for their_part, our_part, storage in (
                ("input_linearity.weight", "input.weight", _GATES),
                ("state_linearity.weight", "recurrent.weight", _GATES),
                ("state_linearity.bias", "bias", _bias(lstm)),
                ("state_projection.weight", "projection.weight", PLAIN),
            ):
                yield StoredArray(f"{theirs}.{their_part}", (f"{name}.{our_part}",), storage)
