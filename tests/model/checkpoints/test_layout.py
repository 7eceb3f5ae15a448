"""The layout of published weights, and its traps."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmo_model.checkpoints import CheckpointError, layout
from elmo_model.checkpoints.checkpoint import tensors_of
from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig
from elmo_model.text.alphabets import Utf8Alphabet

CONFIG = ElmoConfig(
    CharCNNConfig(262, 3, ((1, 2), (2, 4)), 1, "relu", 50),
    LSTMConfig(layers=2, cell=8, projection=4, cell_clip=3.0, projection_clip=3.0, skip=True),
)
CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


def in_memory(arrays: Mapping[str, NDArray[np.float32]]) -> layout.Arrays:
    shapes = {name: array.shape for name, array in arrays.items()}
    return layout.Arrays("label", shapes, lambda name: torch.from_numpy(arrays[name]))


def decode(
    arrays: Mapping[str, NDArray[np.float32]], tolerated: Sequence[str] = ()
) -> dict[str, torch.Tensor]:
    entries = layout.entries(CONFIG)
    return layout.decode(
        in_memory(arrays), entries, CONFIG, Utf8Alphabet(), "the test", tolerated=tolerated
    )


@pytest.fixture(scope="module")
def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    needed = tensors_of(CONFIG, Utf8Alphabet())
    drawn = {name: torch.randn(each.shape, generator=generator) for name, each in needed.items()}
    drawn["token_embedder.char_cnn.characters"][0] = 0
    return drawn


@pytest.fixture
def arrays(tensors: dict[str, torch.Tensor]) -> dict[str, NDArray[np.float32]]:
    return layout.encode(CONFIG, tensors)


def test_decoding_inverts_encoding(
    tensors: dict[str, torch.Tensor], arrays: dict[str, NDArray[np.float32]]
) -> None:
    found = decode(arrays)

    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name


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

    found = decode(with_zero)

    assert found["token_embedder.char_cnn.characters"].shape == (262, 3)
    with pytest.raises(CheckpointError, match="262 rows and the first is not zero"):
        decode(with_one)


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


def test_an_array_that_nothing_needs_is_refused(arrays: dict[str, NDArray[np.float32]]) -> None:
    for name in ("strange", "CNN/W_cnn_2"):
        more = {**arrays, name: np.zeros(1, np.float32)}
        with pytest.raises(CheckpointError, match=f"{name} is found, but not expected by the test"):
            decode(more)
        assert decode(more, tolerated=[name]).keys() == decode(arrays).keys()


@pytest.mark.parametrize("size", [(1024, 128, 1), (2048, 256, 1), (4096, 512, 2)])
def test_shapes_are_those_of_the_published_weights(size: tuple[int, int, int]) -> None:
    """From section 3.1 of the description of the formats."""
    cell, width, highways = size
    filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    cnn = CharCNNConfig(262, 16, filters, highways, "relu", 50)
    config = ElmoConfig(cnn, LSTMConfig(2, cell, width, 3.0, 3.0, skip=True))
    needed = tensors_of(config, Utf8Alphabet())
    shapes = {
        entry.array: tuple(entry.storage.encode(*(needed[name] for name in entry.tensors)).shape)
        for entry in layout.entries(config)
    }

    expected: dict[str, tuple[int, ...]] = {"char_embed": (261, 16)}
    for i, (span, count) in enumerate(filters):
        expected |= {f"CNN/W_cnn_{i}": (1, span, 16, count), f"CNN/b_cnn_{i}": (count,)}
    for k in range(highways):
        for part in ("carry", "transform"):
            expected |= {f"CNN_high_{k}/W_{part}": (2048, 2048), f"CNN_high_{k}/b_{part}": (2048,)}
    expected |= {"CNN_proj/W_proj": (2048, width), "CNN_proj/b_proj": (width,)}
    for r in range(2):
        for number in range(2):
            name = f"RNN_{r}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
            expected |= {f"{name}/W_0": (2 * width, 4 * cell), f"{name}/B": (4 * cell,)}
            expected[f"{name}/W_P_0"] = (cell, width)
    assert shapes == expected
