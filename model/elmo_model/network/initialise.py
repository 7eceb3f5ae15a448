"""Initial weights of a network, drawn as bilm-tf draws them."""

import math

import torch
from torch import nn

from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.lstm import ProjectedLSTM
from elmo_model.network.token_encoder import CharCNN, Highway, TokenEmbedder


@torch.no_grad()
def initialise(elmo: ElmoNetwork, generator: torch.Generator) -> ElmoNetwork:
    """Fill every tensor of a network in place, with the same numbers for the same generator state.

    The distributions are those of bilm-tf `training.py`: the highways start nearly as pure
    carriers, the LSTMs with Glorot's uniform distribution over input, recurrence and gates
    together.
    """
    if elmo.alignment is not None:
        nn.init.eye_(elmo.alignment)
    for module in elmo.modules():
        match module:
            case CharCNN():
                _char_cnn(module, generator)
            case TokenEmbedder():
                _words(module, generator)
            case Highway():
                _highway(module, generator)
            case ProjectedLSTM():
                _lstm(module, generator)
    return elmo


def _char_cnn(cnn: CharCNN, generator: torch.Generator) -> None:
    cnn.characters.uniform_(-1, 1, generator=generator)
    cnn.characters[0] = 0  # id 0 means "no token"
    for convolution in cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None  # for mypy
        if cnn.activation is torch.relu:
            convolution.weight.uniform_(-0.05, 0.05, generator=generator)
        else:
            inputs = convolution.in_channels * convolution.kernel_size[0]
            convolution.weight.normal_(0, math.sqrt(1 / inputs), generator=generator)
        convolution.bias.zero_()
    if isinstance(cnn.projection, nn.Linear):
        _normal(cnn.projection, generator)


def _words(embedder: TokenEmbedder, generator: torch.Generator) -> None:
    if embedder.words is not None:
        bound = math.sqrt(6 / sum(embedder.words.shape))
        embedder.words.uniform_(-bound, bound, generator=generator)
    if isinstance(embedder.projection, nn.Linear):
        _normal(embedder.projection, generator)


def _highway(highway: Highway, generator: torch.Generator) -> None:
    _normal(highway.carry, generator)
    _normal(highway.transform, generator)
    highway.carry.bias.fill_(-2)  # the gate of the transformed branch starts nearly closed


def _lstm(lstm: ProjectedLSTM, generator: torch.Generator) -> None:
    gates, inputs = lstm.input.weight.shape
    width = lstm.recurrent.weight.shape[1]
    _glorot(lstm.input, inputs + width, gates, generator)
    _glorot(lstm.recurrent, inputs + width, gates, generator)
    lstm.bias.zero_()
    if isinstance(lstm.projection, nn.Linear):
        outputs, cell = lstm.projection.weight.shape
        _glorot(lstm.projection, cell, outputs, generator)


def _normal(linear: nn.Linear, generator: torch.Generator) -> None:
    linear.weight.normal_(0, math.sqrt(1 / linear.in_features), generator=generator)
    linear.bias.zero_()


def _glorot(linear: nn.Linear, inputs: int, outputs: int, generator: torch.Generator) -> None:
    bound = math.sqrt(6 / (inputs + outputs))
    linear.weight.uniform_(-bound, bound, generator=generator)
