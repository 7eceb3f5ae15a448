"""The encoder: a network laid out for inference, with everything that makes it fast."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from elmo_model.errors import shown
from elmo_model.inference.batch_run import BLOCK_STEPS, BatchRun, InferenceBiLM
from elmo_model.inference.cache import WordCache
from elmo_model.inference.precision import Precision, precision_of
from elmo_model.inference.word_encoder import ExactLinear, TokenVectors, WordEncoder
from elmo_model.network.config import ElmoConfig
from elmo_model.network.elmo import ElmoNetwork, Origin
from elmo_model.network.state import Representations, State
from elmo_model.text.alphabets import Alphabet
from elmo_model.threads import ParallelDirections, inference

TOKEN_CACHE_SIZE = 65_536
"""Words of the cache of word vectors: 128 MiB at the original size."""
GATE_CACHE_BYTES = 256 * 1024**2
"""The input products of 2,048 words at the original size in float32, and of 4,096 in bfloat16.

More memory saves more products of the first layer (benchmarks/network.py, "text" cached)."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """Computes the vectors of a trained network fast, and is never trained itself.

    `Encoder.of` builds one. It owns the packed weights, the caches and the threads, and always
    computes in inference mode. Thread-safe. The parts are:

    precision: the one it computes in.
    words: the token embedder behind a cache of word vectors.
    bilm: the biLM with fast products, and the cache of the first layer's input products.
    after_boundary: the state, one row, in which each direction is at the first word of a sentence.
    start: zeros, one row: the state of each direction before the boundary.
    alignment: the product with the matrix (2P, 2P) of an aligned model.
    """

    config: ElmoConfig
    alphabet: Alphabet
    origin: Origin
    precision: Precision
    words: WordEncoder
    bilm: InferenceBiLM
    after_boundary: State
    start: State
    alignment: ExactLinear | None

    @classmethod
    def of(
        cls,
        elmo: ElmoNetwork,
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

        Raises OptionError for an unknown precision, for a weight that float16 cannot hold, and for
        int8 without an exact product, as on a processor without VNNI.
        """
        form = precision_of(precision)
        directions = ParallelDirections(threads, owns_process=owns_process)
        with inference(next(elmo.parameters()).device):
            words = WordEncoder(elmo.token_embedder, elmo.config, token_cache_size, directions)
            bilm = InferenceBiLM(elmo.bilm, form, directions, gate_cache_bytes)
            boundaries = _boundaries(words, elmo.alphabet)
            alignment = None
            if elmo.alignment is not None:
                alignment = ExactLinear(elmo.alignment, None, directions)
            start = State.zero(elmo.config.lstm, boundaries.vectors, 1)
            after_boundary = _after_boundary(bilm, boundaries, start)
        return cls(
            elmo.config,
            elmo.alphabet,
            elmo.origin,
            form,
            words,
            bilm,
            after_boundary,
            start,
            alignment,
        )

    @property
    def kernel(self) -> str:
        """The product of the time steps, in words."""
        product = self.bilm.stacks[0].layers[0].recurrent.kernel
        return product if self.bilm.graphs is None else f"{product}, in CUDA graphs"

    @property
    def word_cache(self) -> WordCache:
        """The cache of word vectors, with its counts of hits and misses."""
        return self.words.cache

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries.

        Every sentence has the start state, so its vectors depend on that sentence alone.
        """
        return self.encode_whole(sentences).sentences()

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        bounded: bool = False,
        block_steps: int = BLOCK_STEPS,
        layers: Tensor | None = None,
    ) -> BatchRun:
        """Return the computation of all layers of a batch, from the start state, not yet begun.

        It is computed in blocks of `block_steps` time steps and can stop after any step. An empty
        sentence is its two boundary tokens; an empty token is a token. With `bounded` the sentences
        keep their two boundary tokens. The vectors are written to `layers` (L + 1, N, 2P) where it
        is given. Raises ValueError for a sentence that is a string: its letters are no tokens.
        """
        refuse_texts(sentences)
        with torch.inference_mode():
            if bounded:
                (words, parts), lengths = self._with_boundaries(sentences)
                state = self.start.repeat(len(lengths))
            else:
                # The state after the begin boundary is the same for all sentences, and the vectors
                # of the boundaries are not asked for: two time steps less.
                words, parts = self.words.encode(list(chain.from_iterable(sentences)))
                lengths = list(map(len, sentences))
                state = self.after_boundary.repeat(len(lengths))
            return BatchRun(
                self.bilm,
                words,
                lengths,
                state,
                bounded=bounded,
                block_steps=block_steps,
                words_left=parts,
                layers=layers,
            )

    def encode_whole(
        self, sentences: Sequence[Sequence[str]], *, bounded: bool = False
    ) -> Representations:
        """Map sentences, lists of tokens, to all layers, from the start state, as `encode`."""
        run = self.encode(sentences, bounded=bounded)
        run.advance()
        return run.representations

    def encode_from(
        self, sentences: Sequence[Sequence[str]], state: State | None = None
    ) -> tuple[Representations, State]:
        """Map sentences to all layers with boundaries, from a state, and return the state after.

        As `ElmoNetwork.forward`: row r of the state is for the r-th sentence given; without a state
        every sentence has the start state. Raises ValueError for a sentence that is a string.
        """
        refuse_texts(sentences)
        with torch.inference_mode():
            (words, parts), lengths = self._with_boundaries(sentences)
            before = self.start.repeat(len(lengths)) if state is None else state
            own = before.take(len(lengths))
            run = BatchRun(self.bilm, words, lengths, own, bounded=True, words_left=parts)
            run.advance()
            return run.representations, before.carry(run.state)

    def align(self, vectors: Tensor) -> Tensor:
        """Map mixed vectors (..., 2P) to the space that aligned languages share.

        A model without an alignment returns them unchanged. Only mixes are aligned, never single
        layers (Schuster et al. 2019; AllenNLP 0.9 `elmo_token_embedder_multilang.py`).
        """
        if self.alignment is None:
            return vectors
        with torch.autocast(vectors.device.type, enabled=False):
            aligned: Tensor = self.alignment(vectors.flatten(0, -2))
            return aligned.view(vectors.shape)

    def _with_boundaries(
        self, sentences: Sequence[Sequence[str]]
    ) -> tuple[tuple[TokenVectors, Iterator[None]], list[int]]:
        """Return the words of all sentences with boundaries, and the tokens of each sentence."""
        begin, end = self.alphabet.begin, self.alphabet.end
        words = [word for sentence in sentences for word in (begin, *sentence, end)]
        return self.words.encode(words), [len(sentence) + 2 for sentence in sentences]


def refuse_texts(sentences: Sequence[Sequence[str]]) -> None:
    """Raise ValueError for a sentence that is a string, whose items would be its letters."""
    for number, sentence in enumerate(sentences):
        if isinstance(sentence, str):
            raise ValueError(
                f"sentence {number} is the string {shown(sentence)}; expected a list of its tokens"
            )


def _after_boundary(bilm: InferenceBiLM, boundaries: TokenVectors, start: State) -> State:
    """Map the begin and the end boundary to the state, one row, at a sentence's first word.

    `start`, one row, is the state before the boundary. The forward direction has seen the begin
    boundary, the backward one the end boundary.
    """
    run = BatchRun(bilm, boundaries, [1, 1], start.repeat(2))
    run.advance()
    (begin_h, begin_c), (end_h, end_c) = run.state.directions()
    return State.join((begin_h[:, :1], begin_c[:, :1]), (end_h[:, 1:], end_c[:, 1:]))


def _boundaries(words: WordEncoder, alphabet: Alphabet) -> TokenVectors:
    """Return the begin and the end boundary, without a look-up in the cache."""
    names = (alphabet.begin, alphabet.end)
    vectors = words.compute(names)
    return TokenVectors(names, vectors, np.arange(2))
