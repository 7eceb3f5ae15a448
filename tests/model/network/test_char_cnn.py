"""The character CNN: padding takes part, the activation is its own."""

import torch

from elmo_model.network.char_cnn import CharCNN
from elmo_model.network.config import CharCNNConfig


def cnn(**changes: object) -> CharCNN:
    values: dict[str, object] = {
        "characters": 5,
        "embedding": 1,
        "filters": ((1, 1),),
        "highways": 0,
        "activation": "relu",
        "max_characters": 4,
        "projection": False,
    }
    network = CharCNN(CharCNNConfig(**{**values, **changes}), 1)  # type: ignore[arg-type]
    with torch.no_grad():
        network.characters.copy_(torch.tensor([[0.0], [1.0], [2.0], [-3.0], [9.0]]))
        network.get_parameter("convolutions.0.weight").fill_(1.0)
        network.get_parameter("convolutions.0.bias").zero_()
    return network


def test_the_maximum_sees_padding_characters() -> None:
    word, padded = torch.tensor([[1, 2, 3]]), torch.tensor([[1, 2, 3, 4]])
    assert cnn()(word).item() == 2
    assert cnn()(padded).item() == 9


def test_relu_and_tanh_are_told_apart() -> None:
    word = torch.tensor([[3, 3, 3]])
    assert cnn(activation="relu")(word).item() == 0
    assert abs(cnn(activation="tanh")(word).item() - torch.tanh(torch.tensor(-3.0)).item()) < 1e-6
