"""First numbers follow the laws of bilm-tf and the seed."""

import math

import torch

from elmo_model.network.config import CharCNNConfig, ElmoConfig, LSTMConfig, WordsConfig
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.initialise import initialise
from elmo_model.text.alphabets import Utf8Alphabet, WordVocabulary


def fresh(seed: int, activation: str = "relu") -> ElmoNetwork:
    config = ElmoConfig(
        CharCNNConfig(262, 8, ((1, 40), (3, 60)), 1, activation, 50),  # type: ignore[arg-type]
        LSTMConfig(1, 64, 32, 3.0, 3.0, True),
    )
    return initialise(
        ElmoNetwork(config, Utf8Alphabet(), Origin("", "", "")), torch.Generator().manual_seed(seed)
    )


def test_the_same_seed_draws_the_same_numbers() -> None:
    one, same, other = fresh(1), fresh(1), fresh(2)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, same.state_dict()[name])
    assert any(not torch.equal(t, other.state_dict()[n]) for n, t in one.state_dict().items())


def test_the_laws_are_those_of_bilm_tf() -> None:
    def cnn(name: str, activation: str = "relu") -> torch.Tensor:
        return fresh(1, activation).get_parameter(f"token_embedder.char_cnn.{name}")

    characters, highway = cnn("characters"), "highways.0"
    assert not characters[0].any() and 0.98 < characters.abs().max() <= 1
    assert 0.049 < cnn("convolutions.1.weight").abs().max() <= 0.05
    assert bool((cnn(f"{highway}.carry.bias") == -2).all())
    assert not cnn(f"{highway}.transform.bias").any()
    assert abs(cnn(f"{highway}.carry.weight").std() * math.sqrt(100) - 1) < 0.05
    lstm = fresh(1).bilm.backward_stack.get_parameter
    bound = math.sqrt(6 / (64 + 256))
    assert 0.99 * bound < lstm("layers.0.recurrent.weight").abs().max() <= bound
    assert not lstm("layers.0.bias").any()
    tanh = cnn("convolutions.1.weight", "tanh")
    assert abs(tanh.std() * math.sqrt(3 * 8) - 1) < 0.1


def test_no_number_of_a_model_of_words_is_left_unset() -> None:
    config = ElmoConfig(
        None,
        LSTMConfig(1, 64, 32, 3.0, 3.0, True),
        WordsConfig(3, 16, projection=True),
        aligned=True,
    )
    elmo = ElmoNetwork(config, WordVocabulary(("<S>", "</S>", "<UNK>")), Origin("", "", ""))
    for parameter in elmo.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    initialise(elmo, torch.Generator().manual_seed(1))
    assert not any(bool(parameter.isnan().any()) for parameter in elmo.parameters())
    assert elmo.alignment is not None and torch.equal(elmo.alignment, torch.eye(64))
