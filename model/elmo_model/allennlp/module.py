"""AllenNLP's `Elmo` module, over the network and the encoder of this package."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from elmo_model.allennlp.character_ids import CharacterIds
from elmo_model.allennlp.state_names import from_allennlp, to_allennlp
from elmo_model.checkpoints import load_pair
from elmo_model.errors import shown
from elmo_model.inference.encoder import Encoder
from elmo_model.models.cached_pair import open_cached_pair
from elmo_model.models.catalogue import is_address
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.scalar_mix import ScalarMix
from elmo_model.network.state import State
from elmo_model.text.alphabets import Utf8Alphabet


class Output(TypedDict):
    """What `Elmo` returns: representations (..., n, 2P) and a mask (..., n) of real tokens."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """AllenNLP 2.10's `Elmo`: character ids to trainable mixes of the layers, padded.

    The names of its state are AllenNLP's, so the weights of saved taggers load. By default it is
    stateless: AllenNLP carried the LSTM state from batch to batch, as `stateful` does. Weights that
    need no gradient are computed by an `Encoder`, which is made at the first batch and again after
    the weights have changed. As in AllenNLP, `do_layer_norm` takes mean and variance over all
    tokens of the batch, so that the vectors of a sentence depend on its company.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: "ElmoBiLM | None" = None,
        *,
        stateful: bool = False,
    ) -> None:
        """Load a network with AllenNLP's character ids.

        Args:
            options_file: the options file of a published pair; with `weight_file` None, the name or
                the path of a model. Both URLs of a published model are its files in the cache.
            weight_file: the weights of the pair.
            num_output_representations: the number of mixes.
            requires_grad: train the weights of the biLM too, not the mixes alone.
            do_layer_norm: normalise each layer before it is mixed.
            dropout: of the representations.
            vocab_to_cache: not used: the vectors of words are cached anyway.
            keep_sentence_boundaries: return the two boundary tokens of each sentence too.
            scalar_mix_parameters: L + 1 raw scalars of every mix, which are then not trained.
            module: `_elmo_lstm` of another `Elmo`, to share its network; the files are None then.
            stateful: begin each batch with the state after the one before, row by row.

        Raises CheckpointError for files that are missing or damaged, ValueError for arguments that
        exclude each other.
        """
        super().__init__()
        if module is None:
            module = ElmoBiLM(_network(options_file, weight_file), requires_grad, stateful)
        elif options_file is not None or weight_file is not None:
            raise ValueError("module excludes options_file and weight_file, expected None for both")
        self._elmo_lstm = module
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._bounded = keep_sentence_boundaries or do_layer_norm
        self._dropout = nn.Dropout(dropout)
        self._mix_names = [f"scalar_mix_{number}" for number in range(num_output_representations)]
        for name in self._mix_names:
            scalars = ScalarMix(module.num_layers, scalar_mix_parameters, layer_norm=do_layer_norm)
            self.add_module(name, scalars.requires_grad_(scalar_mix_parameters is None))

    def get_output_dim(self) -> int:
        """Return 2P, the width of a representation."""
        return self._elmo_lstm.get_output_dim()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Output:
        """Map ids (..., n, 50) to a vector a token for each mix; `word_inputs` are not used.

        Vectors of padding are zero, except that with both `do_layer_norm` and
        `keep_sentence_boundaries` they are not, as in AllenNLP.
        """
        self._elmo_lstm.check(inputs)
        layers, mask = self._elmo_lstm.layers(inputs.flatten(0, -3), bounded=self._bounded)
        mixed = [self.get_submodule(name)(layers, mask) for name in self._mix_names]
        if self._bounded and not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
            mixed = [each[:, 1:-1].masked_fill(~mask.unsqueeze(2), 0) for each in mixed]
        outer = inputs.shape[:-2]
        vectors = [self._dropout(each).view(*outer, *each.shape[1:]) for each in mixed]
        return {"elmo_representations": vectors, "mask": mask.reshape(*outer, mask.shape[1])}


class ElmoBiLM(nn.Module):
    """AllenNLP's `_ElmoBiLm`: character ids to the vectors of all layers, padded.

    Frozen weights in float32 are computed by an encoder, which is no part of the state, of pickles
    and of copies.
    """

    def __init__(self, network: ElmoNetwork, requires_grad: bool, stateful: bool) -> None:
        super().__init__()
        self.network = network.requires_grad_(requires_grad)
        self.num_layers = network.config.layers
        self._stateful = stateful
        self._state: State | None = None
        self._encoder: tuple[tuple[object, ...], Encoder] | None = None
        self.register_state_dict_post_hook(to_allennlp)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(from_allennlp)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        """Return 2P."""
        return self.network.config.dimension

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Map ids (batch, n, 50) to "activations", L + 1 tensors (batch, n + 2, 2P), and "mask"."""
        self.check(inputs)
        layers, mask = self.layers(inputs, bounded=True)
        return {"activations": list(layers), "mask": mask}

    def check(self, ids: Tensor) -> None:
        """Raise ValueError for anything but a tensor with the axes of character ids."""
        width = self.network.alphabet.max_characters
        if not isinstance(ids, Tensor):
            raise ValueError(f"found {shown(ids)}, expected the ids of batch_to_ids")
        if ids.dim() < 3 or ids.shape[-1] != width:
            raise ValueError(
                f"ids have shape {tuple(ids.shape)}, expected (batch, tokens, {width}) with a token"
            )

    def layers(self, ids: Tensor, *, bounded: bool) -> tuple[Tensor, Tensor]:
        """Map ids (batch, n, 50) to (L + 1, batch, n, 2P), zero where padded, and the mask.

        With `bounded` there are n + 2 tokens: each sentence has its two boundaries.
        """
        is_token = (ids > 0).any(dim=2)
        if (is_token[:, 1:] & ~is_token[:, :-1]).any():
            raise ValueError("ids have a token behind padding, expected padding at the end alone")
        words = CharacterIds.words(ids[is_token].cpu().numpy())
        lengths = is_token.sum(dim=1).tolist()
        ends = np.cumsum(lengths)
        sentences = [words[end - n : end] for end, n in zip(ends, lengths, strict=True)]
        layers = self._computed(sentences, bounded)  # (L + 1, N, 2P)
        counts = torch.tensor(lengths, device=layers.device) + 2 * bounded
        mask = torch.arange(ids.shape[1] + 2 * bounded, device=layers.device) < counts[:, None]
        padded = torch.zeros(
            (len(layers), *mask.shape, layers.shape[2]), dtype=layers.dtype, device=layers.device
        )
        padded[:, mask] = layers
        return padded, mask

    def _computed(self, sentences: list[list[str]], bounded: bool) -> Tensor:
        """Map sentences of words to the layers (L + 1, N, 2P) of all, one after another."""
        weights = list(self.network.parameters())
        frozen = not any(weight.requires_grad for weight in weights)
        if frozen and all(weight.dtype == torch.float32 for weight in weights):
            encoder = self._prepared(weights)
            if not self._stateful:
                return encoder.encode_whole(sentences, bounded=bounded).layers
            found, state = encoder.encode_from(sentences, self._state)
        else:
            found, state = self.network(sentences, self._state)
        if self._stateful:
            self._state = State(state.h.detach().clone(), state.c.detach().clone())
        if bounded or not sentences:
            return found.layers
        return torch.cat([each[:, found.inside] for each in found.sentences()], dim=1)

    def _prepared(self, weights: Sequence[Tensor]) -> Encoder:
        """Return the encoder of the weights as they are."""
        key = tuple((weight.data_ptr(), weight._version) for weight in weights)
        if self._encoder is None or self._encoder[0] != key:
            self._encoder = (key, Encoder.of(self.network))
        return self._encoder[1]

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Change the type or the device, as `to` does: of the carried state too."""
        self._encoder = None  # new weights may lie where the old ones lay
        if self._state is not None:
            self._state = State(fn(self._state.h), fn(self._state.c))
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None}


def _network(options: str | Path | None, weights: str | Path | None) -> ElmoNetwork:
    """Load a network and give it the alphabet of character ids."""
    if options is None:
        raise ValueError("options_file is None, expected the files or the name of a model")
    if is_address(options) or is_address(weights):
        network = open_cached_pair(str(options), str(weights))
    else:
        network = open_model(options) if weights is None else load_pair(options, weights)
    if not isinstance(network.alphabet, Utf8Alphabet) or network.config.words:
        raise ValueError(f"{options}: is a model without AllenNLP's characters")
    alphabet = CharacterIds(network.alphabet.max_characters)
    network.alphabet = network.token_embedder.alphabet = alphabet
    return network
