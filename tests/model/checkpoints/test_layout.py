"""The layout of published weights, and its traps."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmo_model.checkpoints import CheckpointError, layout
from elmo_model.checkpoints.checkpoint import shapes
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.text.alphabets import Utf8Alphabet

CONFIG = ElmoConfig(
    CharCNNConfig(262, 3, ((1, 2), (2, 4)), 1, "relu", 50),
    LSTMConfig(layers=2, cell=8, projection=4, cell_clip=3.0, projection_clip=3.0, skip=True),
)
CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


def in_memory(arrays: Mapping[str, NDArray[np.float32]]) -> layout.Arrays:
    shapes = {name: array.shape for name, array in arrays.items()}
    return layout.Arrays("label", shapes, arrays.__getitem__)


@pytest.fixture(scope="module")
def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = shapes(CONFIG, Utf8Alphabet())
    drawn = {name: torch.randn(shape, generator=generator) for name, shape in sizes.items()}
    drawn["token_embedder.char_cnn.characters"][0] = 0
    return drawn


@pytest.fixture
def arrays(tensors: dict[str, torch.Tensor]) -> dict[str, NDArray[np.float32]]:
    return layout.encode(CONFIG, tensors)


def test_decoding_inverts_encoding(
    tensors: dict[str, torch.Tensor], arrays: dict[str, NDArray[np.float32]]
) -> None:
    found = layout.decode(in_memory(arrays), CONFIG, "in the test")

    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name
    layout.refuse_unexpected(in_memory(arrays), CONFIG, "in the test")


def test_the_character_table_is_stored_without_row_zero(
    tensors: dict[str, torch.Tensor], arrays: dict[str, NDArray[np.float32]]
) -> None:
    table = tensors["token_embedder.char_cnn.characters"]

    assert arrays["char_embed"].shape == (261, 3)
    assert torch.equal(torch.from_numpy(arrays["char_embed"]), table[1:])


def test_a_stored_row_zero_must_be_zero(arrays: dict[str, NDArray[np.float32]]) -> None:
    table = arrays["char_embed"]
    with_zero = {**arrays, "char_embed": np.concatenate((np.zeros_like(table[:1]), table))}
    with_one = {**arrays, "char_embed": np.concatenate((np.ones_like(table[:1]), table))}

    found = layout.decode(in_memory(with_zero), CONFIG, "")

    assert found["token_embedder.char_cnn.characters"].shape == (262, 3)
    with pytest.raises(CheckpointError, match="262 rows and the first is not zero"):
        layout.decode(in_memory(with_one), CONFIG, "")


def test_carry_and_transform_keep_their_names_and_are_transposed(
    tensors: dict[str, torch.Tensor], arrays: dict[str, NDArray[np.float32]]
) -> None:
    for part in ("carry", "transform"):
        ours = tensors[f"token_embedder.char_cnn.highways.0.{part}.weight"]
        assert torch.equal(torch.from_numpy(arrays[f"CNN_high_0/W_{part}"]), ours.T)


def test_gates_keep_their_order_and_the_forget_bias_is_not_stored(
    tensors: dict[str, torch.Tensor], arrays: dict[str, NDArray[np.float32]]
) -> None:
    name = "bilm.forward_stack.layers.0"
    kernel = torch.from_numpy(arrays[f"{CELL}/W_0"])

    assert torch.equal(kernel[:4], tensors[f"{name}.input.weight"].T)
    assert torch.equal(kernel[4:], tensors[f"{name}.recurrent.weight"].T)
    assert torch.equal(torch.from_numpy(arrays[f"{CELL}/B"]), tensors[f"{name}.bias"])


def test_an_array_of_another_option_is_named(arrays: dict[str, NDArray[np.float32]]) -> None:
    for name, option in (
        ("RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B", r"lstm\.n_layers is 2 in the test"),
        ("CNN_high_1/W_carry", r"char_cnn\.n_highway is 1 in the test"),
        ("CNN/W_cnn_2", r"char_cnn\.filters is \[\[1, 2\], \[2, 4\]\] in the test"),
    ):
        more = in_memory({**arrays, name: np.zeros(1, np.float32)})
        with pytest.raises(CheckpointError, match=f"{name} is found, but not expected: {option}"):
            layout.refuse_unexpected(more, CONFIG, "in the test")
    strange = in_memory({**arrays, "strange": np.zeros(1, np.float32)})
    with pytest.raises(CheckpointError, match=r"label: strange is found, but not expected$"):
        layout.refuse_unexpected(strange, CONFIG, "in the test")
    layout.refuse_unexpected(strange, CONFIG, "in the test", {"strange"})
