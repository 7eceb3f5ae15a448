"""State dicts of AllenNLP's modules, and their traps."""

import pytest
import torch

from elmo_model.checkpoints import CheckpointError
from elmo_model.checkpoints.state_dict import Stored, bilm_of, char_cnn_of
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


def test_gates_are_reordered_and_the_forget_bias_is_subtracted() -> None:
    bias = torch.tensor([0.0, 1.0, 12.0, 13.0, 24.0, 25.0, 36.0, 37.0])  # i, f, candidate, o

    found = bilm_of(Stored("label", directions(bias), "the test"), LSTM)

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

    found = char_cnn_of(Stored("label", state, "the test"), cnn, "conv_{}", "high_{}")

    name = "token_embedder.char_cnn.highways.0"
    assert found[f"{name}.transform.weight"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found[f"{name}.carry.weight"].tolist() == [[-5.0, -6.0], [-7.0, -8.0]]
    assert found[f"{name}.carry.bias"].tolist() == [-3.0, -4.0]


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.ones(3), r"a has shape \(3,\), expected \(2,\) by the test"),
        (torch.ones(2).int(), "a is torch.int32 .*, expected strided floats"),
        (
            torch.ones(2).to_sparse(),
            "a is torch.float32 .torch.sparse_coo., expected strided floats",
        ),
        (torch.ones(1).as_strided((2,), (0,)), "a stores 4 bytes, expected 8"),
    ],
)
def test_a_wrong_tensor_is_named(tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        Stored("label", {"a": tensor}, "the test").take("a", 2)


def test_tensors_that_nothing_takes_are_refused_below_the_prefix() -> None:
    state = {"p.a": torch.ones(2), "p.b": torch.ones(2), "other": torch.ones(2)}
    stored = Stored("label", state, "the test", "p.")

    stored.take("a", 2)

    with pytest.raises(CheckpointError, match=r"p\.b is found, but not expected by the test"):
        stored.refuse_more()
    with pytest.raises(
        CheckpointError, match=r"p\.c is missing, expected shape \(2,\) by the test"
    ):
        stored.take("c", 2)
    stored.take("b", 2)
    stored.refuse_more()
