"""The encoder: an `Elmo` laid out for inference, with everything that makes it fast."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.caches import InputProjectionCache, Projections, WordCache
from elmo_model.inference.parallel_directions import ParallelDirections
from elmo_model.inference.precision import precision_of
from elmo_model.inference.word_encoder import DistinctWords, WordEncoder
from elmo_model.network.alignment import align
from elmo_model.network.config import ElmoConfig
from elmo_model.network.elmo import Elmo, Origin
from elmo_model.network.representations import Representations
from elmo_model.network.state import State
from elmo_model.text.alphabets import Alphabet

TOKEN_CACHE_SIZE = 65_536
"""Words of the cache of word vectors: 128 MiB at the original size."""
GATE_CACHE_BYTES = 256 * 1024**2
"""The input products of 2,048 words at the original size in float32, and of 4,096 in bfloat16.

More memory saves more products of the first layer (benchmarks/network.py, "text" cached)."""


@dataclass(frozen=True, slots=True)
class Block:
    """The vectors of a batch up to the end of one block of time steps.

    `steps` are the steps of this block. Step t is token t of each sentence in the forward direction
    and token n - 1 - t in the backward direction. `representations` are those of the whole batch;
    the halves of `steps` and of earlier blocks are computed, all of them when `is_last`.
    """

    steps: range
    representations: Representations
    is_last: bool


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """Computes the vectors of a trained network fast, and is never trained itself.

    `Encoder.of` builds one. It owns the packed weights, the caches and the threads, and always
    computes in inference mode. Thread-safe. The parts are:

    words: the token embedder behind a cache of word vectors.
    bilm: the biLM with fast products.
    projections: the cache of the first layer's input products.
    opening: the state, one row, in which each direction is at the first word of a sentence.
    alignment: the matrix (2P, 2P) of an aligned model.
    """

    config: ElmoConfig
    alphabet: Alphabet
    origin: Origin
    words: WordEncoder
    bilm: InferenceBiLM
    projections: InputProjectionCache
    opening: State
    alignment: Tensor | None

    @classmethod
    def of(
        cls,
        elmo: Elmo,
        precision: str = "float32",
        *,
        token_cache_size: int = TOKEN_CACHE_SIZE,
        gate_cache_bytes: int = GATE_CACHE_BYTES,
        threads: int | None = None,
        owns_process: bool = False,
    ) -> "Encoder":
        """Return an encoder for a network, on the device of the network, which stays as it is.

        The products of the biLM have 16-bit factors with `precision` "bfloat16" or "float16" and
        8-bit factors with "int8"; the rest stays float32. `token_cache_size` words keep their
        vectors, and on a CPU `gate_cache_bytes` bytes hold input products of frequent words.
        `threads` is the number of torch threads for the biLM on a CPU, by default that of the
        calling thread. `owns_process` is for a process that does nothing besides, see
        `ParallelDirections`.

        The encoder shares the memory of the token embedder and the alignment with `elmo` and holds
        the biLM in a form of its own. So the biLM is in memory twice until the caller drops its
        last reference to `elmo`, which it may do at once. Weights of `elmo` that are trained
        afterwards take a new encoder.

        Raises ValueError for an unknown precision, or for int8 without an exact 8-bit product.
        """
        with torch.inference_mode():
            words = WordEncoder(elmo.token_embedder, elmo.config, token_cache_size)
            directions = ParallelDirections(threads, owns_process=owns_process)
            bilm = InferenceBiLM(elmo.bilm, precision_of(precision), directions)
            boundaries = _boundaries(words, elmo.alphabet)
            like = bilm.project(boundaries.vectors)
            opening = bilm.opening_state(boundaries)
        return cls(
            elmo.config,
            elmo.alphabet,
            elmo.origin,
            words,
            bilm,
            InputProjectionCache.of_size(gate_cache_bytes, like),
            opening,
            None if elmo.alignment is None else elmo.alignment.detach(),
        )

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
        """The number of learnt parameters, as published figures count them."""
        return self.config.parameter_count

    @property
    def word_cache(self) -> WordCache:
        """The cache of word vectors, with its counts of hits and misses."""
        return self.words.cache

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries.

        The state starts from zeros, so the vectors of a sentence depend on that sentence alone.
        """
        return self.encode_whole(sentences).sentences()

    def encode(
        self, sentences: Sequence[Sequence[str]], *, bounded: bool = False
    ) -> Iterator[Block]:
        """Yield the layers of a batch, from zero state, in blocks of time steps.

        The two directions do not mix before the end, so sentences of any length can be computed in
        blocks with their state carried. Today every batch is one block. With `bounded` the
        sentences keep their two boundary tokens.
        """
        representations = self.encode_whole(sentences, bounded=bounded)
        steps = max(representations.lengths, default=0)
        yield Block(range(steps), representations, is_last=True)

    def encode_whole(
        self, sentences: Sequence[Sequence[str]], *, bounded: bool = False
    ) -> Representations:
        """Map sentences, lists of tokens, to all layers, from zero state.

        An empty sentence is its two boundary tokens; an empty token is a token. With `bounded` the
        sentences keep their two boundary tokens.
        """
        with torch.inference_mode():
            if not bounded:
                return self._encode_inside(sentences)
            words, lengths = self._with_boundaries(sentences)
            state = State.zero(self.config.lstm, words.vectors, len(lengths))
            return Representations(self._layers(words, lengths, state), lengths, bounded=True)

    def encode_from(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[Representations, State]:
        """Map sentences to all layers with boundaries, from a state, and return the state after.

        As `Elmo.forward`: row r of the state is for the r-th sentence given; without a state it is
        zero.
        """
        with torch.inference_mode():
            words, lengths = self._with_boundaries(sentences)
            before = State.zero(self.config.lstm, words.vectors, 0) if state is None else state
            layers, after = self.bilm.encode(words, lengths, before)
            return Representations(layers, lengths, bounded=True), after

    def align(self, vectors: Tensor) -> Tensor:
        """Map mixed vectors (..., 2P) to the space that aligned languages share.

        A model without an alignment returns them unchanged.
        """
        return align(vectors, self.alignment)

    def _encode_inside(self, sentences: Sequence[Sequence[str]]) -> Representations:
        """Map sentences to all layers without boundaries, in two time steps less a sentence.

        The state after the begin boundary is the same for all sentences, so it is computed once
        (`opening`), and the vectors of the boundaries are not computed at all.
        """
        words = self.words.encode([word for sentence in sentences for word in sentence])
        lengths = tuple(len(sentence) for sentence in sentences)
        present = [length for length in lengths if length]
        state = self.opening.repeat(len(present))
        return Representations(self._layers(words, present, state), lengths, bounded=False)

    def _layers(self, words: DistinctWords, lengths: Sequence[int], state: State) -> Tensor:
        """Map the N words of all sentences to all layers (L + 1, N, 2P)."""

        def project(places: Sequence[int]) -> Projections:
            return self.bilm.project(words.vectors[list(places)])

        with self.projections.hold(words.words, project) as known:
            layers, _ = self.bilm.encode(words, lengths, state, known)
        return layers

    def _with_boundaries(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[DistinctWords, tuple[int, ...]]:
        """Return the words of all sentences with boundaries, and the tokens of each sentence."""
        begin, end = self.alphabet.begin, self.alphabet.end
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        return self.words.encode(words), tuple(len(sentence) + 2 for sentence in sentences)


def _boundaries(words: WordEncoder, alphabet: Alphabet) -> DistinctWords:
    """Return the begin and the end boundary, without a look-up in the cache."""
    names = (alphabet.begin, alphabet.end)
    vectors = words.compute(names)
    return DistinctWords(names, vectors, torch.arange(2, device=vectors.device))
