"""The names of AllenNLP's modules in the state of `ElmoBiLM`: two hooks of its state dict."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from elmo_model.checkpoints.allennlp_model import stored_arrays
from elmo_model.network.elmo import ElmoNetwork

_NETWORK = "network."  # how the names of the network's tensors begin in `ElmoBiLM`
_WORDS = "_word_embedding.weight"  # AllenNLP's cache of words, which its state dicts hold


def to_allennlp(
    module: nn.Module, state: dict[str, Any], prefix: str, _metadata: Mapping[str, Any]
) -> None:
    """Replace the tensors of the network in a state dict by those of AllenNLP's modules."""
    network = _network(module)
    config = network.config
    ours = {name: state.pop(prefix + _NETWORK + name) for name in network.state_dict()}
    assert config.char_cnn is not None  # for mypy
    for stored in stored_arrays(prefix, config, config.char_cnn):
        state[stored.array] = stored.storage.encode(*(ours[name] for name in stored.tensors))


def from_allennlp(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Replace the tensors of AllenNLP's modules in a state dict by those of the network."""
    network = _network(module)
    config, own = network.config, network.state_dict()
    _metadata, _strict, missing, *_ = rest
    state.pop(prefix + _WORDS, None)
    assert config.char_cnn is not None  # for mypy
    for stored in stored_arrays(prefix, config, config.char_cnn):
        if stored.array in state:
            tensors = stored.storage.decode(state.pop(stored.array))
        else:
            missing.append(stored.array)
            tensors = tuple(own[name] for name in stored.tensors)
        names = (prefix + _NETWORK + name for name in stored.tensors)
        state.update(zip(names, tensors, strict=True))


def _network(module: nn.Module) -> ElmoNetwork:
    network = module.get_submodule(_NETWORK.rstrip("."))
    assert isinstance(network, ElmoNetwork)
    return network
