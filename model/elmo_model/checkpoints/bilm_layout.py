"""The layout of published weights: the array of each tensor, and its order of axes.

bilm-tf wrote the first such files, AllenNLP reads and writes the same. Traps of the layout:

- Matrices have the input axis first, torch has it last.
- The character table lacks row 0, the row of "no token here". Some files do hold it.
- `carry` multiplies the transformed branch of a highway, not its input.
- The gates of an LSTM are in the order input, candidate, forget, output.
- 1 is added to the bias of the forget gate at run time; it is not in the file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.checkpoints.arrays import PLAIN, Storage, StoredArray
from elmo_model.network.config import CharCNNConfig, ElmoConfig

WORDS = "embedding"
"""The table of word-input models. Models with characters may hold it too, unused."""
FORGET_BIAS = 1.0
"""bilm-tf adds this to the stored bias of the forget gate at run time."""


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
    yield StoredArray("char_embed", (f"{ours}.characters",), _TABLE, may_hold_row_0=True)
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
