"""The vectors of all layers of some examples, computed once."""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.errors import shown
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import layer_norm as normalise_layers
from elmo_model.system import mapped_array
from elmo_model.tasks.examples import Examples, FitError
from elmo_model.text.by_length import by_length

Encode = Callable[[Sequence[Sequence[str]]], Iterable[tuple[int, Tensor]]]
"""Yield the number of each of some sentences, in any order, and its layers (L + 1, n, 2P)."""

OnTokens = Callable[[int, int], None]
"""Is called with the number of tokens that are done, and of all."""

BATCH_TOKENS = 2048
"""Tokens in a batch, boundaries included: as large as keeps both cores busy."""

MEMORY_BYTES = 1 << 30
"""Bytes of vectors that are kept in memory; more are kept in a memory-mapped temporary file."""


class Features:
    """The examples of some sentences, and the vectors (N, L + 1, 2P) in float32 of all N examples.

    `numbers` are the numbers of these sentences among all. With `weights` the rows have one layer,
    the sum of all by these weights. The mix is computed on access; it is never stored for all rows.
    """

    def __init__(
        self,
        examples: Examples,
        vectors: NDArray[np.float32],
        numbers: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        """`examples` are all examples; without `numbers` the features are of all sentences."""
        self.vectors = vectors
        self.numbers = range(len(examples.sentences)) if numbers is None else numbers
        self.examples = examples if numbers is None else examples.take(numbers)
        self._all = examples
        self._weights = weights
        lengths = np.array([len(labels) for labels in examples.labels], np.int64)
        starts = lengths.cumsum() - lengths
        rows = [np.arange(starts[n], starts[n] + lengths[n]) for n in self.numbers]
        self._index = np.concatenate([np.empty(0, np.int64), *rows])

    def __len__(self) -> int:
        return len(self._index)

    @property
    def layers(self) -> int:
        """L + 1, or 1 for a mixture."""
        return int(self.vectors.shape[1]) if self._weights is None else 1

    @property
    def dimension(self) -> int:
        """2P."""
        return int(self.vectors.shape[2])

    def rows(self, numbers: NDArray[np.int64] | slice) -> Tensor:
        """Map n example numbers to their layers (L + 1, n, 2P)."""
        chosen = self._index[numbers]
        if self._weights is None:
            vectors = np.ascontiguousarray(self.vectors[chosen])
            return torch.from_numpy(vectors).permute(1, 0, 2)
        weights = np.asarray(self._weights, np.float32)
        used = np.flatnonzero(weights)
        vectors = self.vectors[chosen[:, np.newaxis], used]
        return torch.from_numpy(np.einsum("l,nld->nd", weights[used], vectors))[None]

    def mixed(self, weights: Sequence[float]) -> "Features":
        """Return features of one layer: the sum of all layers by these weights, gamma 1."""
        return Features(self._all, self.vectors, self.numbers, weights)

    def take(self, numbers: Sequence[int]) -> "Features":
        """Return the features of the sentences of these numbers; the vectors are shared."""
        return Features(self._all, self.vectors, numbers, self._weights)


def encode_by(encoder: Encoder, *, layer_norm: bool = False) -> Encode:
    """Return the function that computes the layers of sentences by an encoder.

    With `layer_norm` each layer of a sentence is normalised, over its boundaries as well, as the
    service does for a task with `layer_norm`.
    """

    def encode(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, Tensor]]:
        for batch in by_length(range(len(sentences)), sentences, BATCH_TOKENS):
            whole = encoder.encode_whole([sentences[n] for n in batch], bounded=True).sentences()
            for number, computed in zip(batch, whole, strict=True):
                layers = computed.float().cpu()
                yield number, (normalise_layers(layers) if layer_norm else layers)[:, 1:-1]

    return encode


@contextmanager
def features_of(
    encode: Encode,
    examples: Examples,
    *,
    memory_bytes: int = MEMORY_BYTES,
    on_tokens: OnTokens = lambda _done, _total: None,
) -> Iterator[Features]:
    """Compute the vectors of all examples; yield them.

    `on_tokens` is called with the tokens done and those of all sentences. Over `memory_bytes` the
    vectors lie in a temporary file, which is deleted at the end. Raises FitError for vectors that
    are not finite, and OSError for a full disk.
    """
    sentences = examples.sentences
    ends = list(accumulate(map(len, examples.labels)))
    total, done, told = sum(map(len, sentences)), 0, 0
    with tempfile.TemporaryDirectory(prefix="elmo-fit-") as folder:
        vectors = np.empty((0, 1, 1), np.float32)
        for number, layers in encode(sentences):
            if not layers.isfinite().all():
                raise FitError(
                    f"the vectors of {shown(' '.join(sentences[number]))} are not finite"
                )
            if not len(vectors):
                size = len(examples), layers.shape[0], layers.shape[2]
                vectors = _array(Path(folder) / "vectors.npy", size, memory_bytes)
            rows = _mean(layers) if examples.kind == "sentence" else layers
            start = ends[number] - rows.shape[1]
            vectors[start : ends[number]] = rows.transpose(0, 1).numpy()
            done += len(sentences[number])
            if done - told >= BATCH_TOKENS or done == total:
                on_tokens(done, total)
                told = done
        yield Features(examples, vectors)


def _array(path: Path, shape: tuple[int, ...], memory_bytes: int) -> NDArray[np.float32]:
    """Return an array of zeros: in memory, or above `memory_bytes` in a file."""
    if 4 * math.prod(shape) <= memory_bytes:
        return np.zeros(shape, np.float32)
    return mapped_array(path, shape, np.float32)


def _mean(layers: Tensor) -> Tensor:
    """Map (L + 1, n, 2P) to the mean (L + 1, 1, 2P) over tokens; without tokens it is zero."""
    if not layers.shape[1]:
        return layers.new_zeros(layers.shape[0], 1, layers.shape[2])
    return layers.mean(dim=1, keepdim=True)
