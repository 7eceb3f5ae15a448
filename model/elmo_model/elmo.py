"""ELMo: tokenised sentences in, the vectors of every layer out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.alphabets import Alphabet
from elmo_model.config import ElmoConfig
from elmo_model.inference.input_projection_cache import GateCache, Gates
from elmo_model.inference.linear import Precision, check_precision
from elmo_model.inference.word_cache import TokenCache
from elmo_model.layers.bilm import BiLM
from elmo_model.layers.token_embedder import TokenEmbedder
from elmo_model.representations import Representations
from elmo_model.state import State
from elmo_model.task import Task

GATE_CACHE_BYTES = 256 * 1024**2
"""The gates of 2,048 words at the original size in float32, and of twice as many in bfloat16."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a network's numbers come from: `revision` is a short SHA-256 of them."""

    name: str
    format: str
    revision: str


class Elmo(nn.Module):
    """Token embedder and biLM (Peters et al. 2018), for serving and for training alike.

    Its numbers are not initialised: a checkpoint or `layers.initialise` sets them. `tasks` are the
    scalar mixes that came with it.
    """

    def __init__(
        self,
        config: ElmoConfig,
        alphabet: Alphabet,
        origin: Origin,
        *,
        dropout: float = 0.0,
        token_cache_size: int = 65_536,
        tasks: Sequence[Task] = (),
    ) -> None:
        super().__init__()
        self.config = config
        self.alphabet = alphabet
        self.origin = origin
        self.token_cache = TokenCache(token_cache_size)
        self.tasks = tuple(tasks)
        self.token_embedder = TokenEmbedder(config, alphabet, self.token_cache)
        self.bilm = BiLM(config.lstm, dropout)
        self._prepared = False
        self._opening: State | None = None
        self.gate_cache = GateCache(0)
        width = config.dimension
        # (2P, 2P), found after training; Elmo.align applies it
        self.alignment = nn.Parameter(torch.empty(width, width)) if config.aligned else None

    @property
    def layers(self) -> int:
        """L + 1: the token layer and the layers of the biLM."""
        return self.config.layers

    @property
    def dimension(self) -> int:
        """2P, the width of every vector."""
        return self.config.dimension

    @property
    def parameter_count(self) -> int:
        """Numbers learnt, as published figures count them."""
        return self.config.parameter_count

    def forward(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[Representations, State]:
        """Map sentences, lists of tokens, to all layers with boundaries, and the state after.

        An empty sentence is its two boundary tokens; an empty token is a token. `state` belongs to
        places in the batch, not to sentences: row r is the r-th sentence given.
        """
        tokens, lengths = self._with_boundaries(sentences)
        layers, after = self.bilm(tokens, lengths, state)
        return Representations(layers, lengths, bounded=True), after

    def read_bounded(self, sentences: Sequence[Sequence[str]]) -> Representations:
        """As `forward`, from zero state and without the state after."""
        tokens, lengths = self._with_boundaries(sentences)
        return Representations(self.bilm.read(tokens, lengths), lengths, bounded=True)

    def read(self, sentences: Sequence[Sequence[str]]) -> Representations:
        """Map sentences, lists of tokens, to all layers, from zero state and without boundaries.

        The numbers of `forward`, with two steps less a sentence: all sentences begin with the same
        boundary, so it is read once for all of them, and what is said of the other is never seen.
        """
        words = [word for sentence in sentences for word in sentence]
        lengths = tuple(len(sentence) for sentence in sentences)
        distinct = self.token_embedder.distinct(words)
        there = [length for length in lengths if length]
        state = self._opening_state().repeat(len(there))

        def gates(places: Sequence[int]) -> Gates:
            return self.bilm.gates_of(distinct.vectors[list(places)])

        with self.gate_cache.hold(distinct.words, gates) as known:
            layers = self.bilm.read(distinct.vectors, there, state, distinct.index, known)
        return Representations(layers, lengths, bounded=False)

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), boundaries cut.

        State starts from zeros and nothing is dropped, so a sentence's vectors depend on that
        sentence alone. In inference mode: no gradients.
        """
        if self.training:
            self.eval()
            try:
                return self.embed(sentences)
            finally:
                self.train()
        with torch.inference_mode():
            return self.read(sentences).sentences()

    def _with_boundaries(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[Tensor, tuple[int, ...]]:
        """Return the token vectors (N, P) of all sentences, and the tokens of each."""
        begin, end = self.alphabet.begin, self.alphabet.end
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        return self.token_embedder(words), tuple(len(sentence) + 2 for sentence in sentences)

    def _opening_state(self) -> State:
        """Return the state (one row) in which each direction meets the first word of a sentence."""
        if self._opening is not None:
            return self._opening
        boundaries = self.token_embedder([self.alphabet.begin, self.alphabet.end])
        state = self.bilm.opening_state(boundaries)
        if self._prepared:  # its numbers stay as they are
            self._opening = state
        return state

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._opening = None  # another device or type
        self.gate_cache.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def align(self, vectors: Tensor) -> Tensor:
        """Map mixed vectors (..., 2P) to the space that aligned languages share.

        Without an alignment they stay as they are. Only mixes are aligned, never single layers
        (Schuster et al. 2019; AllenNLP 0.9 `elmo_token_embedder_multilang.py`).
        """
        if self.alignment is None:
            return vectors
        return functional.linear(vectors, self.alignment)

    def prepare(
        self, precision: str = "float32", *, gate_cache_bytes: int = GATE_CACHE_BYTES
    ) -> Self:
        """Lay this network out for inference on the device it is on, and return it.

        The products of the biLM take 16-bit factors where `precision` is "bfloat16" or "float16",
        8-bit ones where it is "int8"; the character CNN, the gates and the vectors stay float32. On
        a CPU, what the first layer makes of frequent words is kept in so many bytes. Neither
        trained nor saved afterwards. Raises ValueError for another precision.
        """
        check_precision(precision)
        self.eval()
        self.requires_grad_(False)
        self.bilm.prepare(cast(Precision, precision))
        self.token_cache.clear()
        self._prepared, self._opening = True, None
        self.gate_cache = GateCache(self._words_in(gate_cache_bytes))
        return self

    def _words_in(self, gate_cache_bytes: int) -> int:
        """Return how many words' gates so many bytes hold; a GPU looks nothing up."""
        with torch.inference_mode():
            one = self.bilm.gates_of(self.token_embedder([self.alphabet.begin]))
        if one[0].device.type != "cpu":
            return 0
        return gate_cache_bytes // sum(gates.nbytes for gates in one)
