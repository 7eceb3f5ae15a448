"""State dicts of AllenNLP's modules, and their traps."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.layout import StoredArray
from elmo_model.checkpoints.state_dict import arrays_of, bilm_entries, char_cnn_entries
from elmo_model.network.config import CharCNNConfig, LSTMConfig

LSTM = LSTMConfig(
    layers=1, cell=2, projection=3, cell_clip=None, projection_clip=None, skip=True, forget_bias=1.0
)


def directions(bias: torch.Tensor) -> dict[str, torch.Tensor]:
    state = {}
    for direction in ("forward", "backward"):
        name = f"{direction}_layer_0"
        state[f"{name}.input_linearity.weight"] = torch.arange(24.0).reshape(8, 3)
        state[f"{name}.state_linearity.weight"] = torch.arange(24.0, 48.0).reshape(8, 3)
        state[f"{name}.state_linearity.bias"] = bias
        state[f"{name}.state_projection.weight"] = torch.ones(3, 2)
    return state


def decoded(state: dict[str, torch.Tensor], entries: Iterable[StoredArray]) -> dict[str, Any]:
    """Map tensors, whose encoding is the state again."""
    found: dict[str, torch.Tensor] = {}
    for entry in entries:
        stored = state[entry.array]
        found |= zip(entry.tensors, entry.storage.decode(stored), strict=True)
        again = entry.storage.encode(*(found[name] for name in entry.tensors))
        assert torch.equal(again, stored), entry.array
    return found


def test_gates_are_reordered_and_the_forget_bias_is_subtracted() -> None:
    bias = torch.tensor([0.0, 1.0, 12.0, 13.0, 24.0, 25.0, 36.0, 37.0])  # i, f, candidate, o

    found = decoded(directions(bias), bilm_entries(LSTM))

    expected = torch.tensor([0.0, 1.0, 24.0, 25.0, 11.0, 12.0, 36.0, 37.0])  # i, candidate, f, o
    assert torch.equal(found["bilm.forward_stack.layers.0.bias"], expected)
    rows = found["bilm.backward_stack.layers.0.input.weight"][:, 0] / 3
    assert rows.tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


def test_the_gate_of_a_highway_changes_its_sign() -> None:
    cnn = CharCNNConfig(262, 3, ((1, 2),), 1, "relu", 50)
    state = {
        "conv_0.weight": torch.ones(2, 3, 1),
        "conv_0.bias": torch.ones(2),
        "high_0.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
        "high_0.bias": torch.tensor([1.0, 2.0, 3.0, 4.0]),
    }

    found = decoded(state, char_cnn_entries(cnn, "conv_{}", "high_{}"))

    name = "token_embedder.char_cnn.highways.0"
    assert found[f"{name}.transform.weight"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found[f"{name}.carry.weight"].tolist() == [[-5.0, -6.0], [-7.0, -8.0]]
    assert found[f"{name}.carry.bias"].tolist() == [-3.0, -4.0]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3), r"a has shape \(3,\), expected \(2,\) by the test"),
        (torch.ones(2).int(), "a is torch.int32 .*, expected strided floats"),
        (torch.ones(2).to_sparse(), "a is torch.float32 .torch.sparse_coo., expected strided"),
        (torch.ones(1).as_strided((2,), (0,)), "a stores 4 bytes, expected 8"),
    ],
)
def test_a_wrong_tensor_is_named(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        arrays_of("label", {"a": tensor}).take("a", (2,), "the test")
