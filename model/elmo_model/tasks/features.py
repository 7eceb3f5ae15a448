"""The vectors of all layers at the places of some examples, computed once."""

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.errors import shown
from elmo_model.files.runtime import mapped_array
from elmo_model.inference.encoder import Encoder
from elmo_model.network.scalar_mix import layer_norm as normalise_layers
from elmo_model.tasks.examples import Examples, FitError, Place
from elmo_model.text.batches import by_length

Encode = Callable[[Sequence[Sequence[str]]], Iterable[tuple[int, Tensor]]]
"""Yield the number of each of some sentences, in any order, and its layers (L + 1, n, 2P)."""

OnTokens = Callable[[int, int], None]
"""Is called with the number of tokens that are done, and of all."""

BATCH_TOKENS = 2048
"""Tokens in a batch, boundaries included: as large as keeps both cores busy."""

MEMORY_BYTES = 1 << 30
"""Bytes of vectors that are kept in memory; more are kept in a memory-mapped temporary file."""


class Features:
    """N examples, the vectors (S, L + 1, 2P) of S distinct places in float32, and their rows.

    `index` is (N, 1) or (N, 2): the row of each place of each example. With `weights` the
    rows have one layer, the sum of all by these weights: it is made for the rows that are asked
    for, so that a mixture of vectors in a file needs no memory of their size.
    """

    def __init__(
        self,
        examples: Examples,
        vectors: NDArray[np.float32],
        index: NDArray[np.int64],
        weights: Sequence[float] | None = None,
    ) -> None:
        self.examples = examples
        self.vectors = vectors
        self.index = index
        self._weights = weights

    def __len__(self) -> int:
        return len(self.index)

    @property
    def layers(self) -> int:
        """L + 1, or 1 for a mixture."""
        return int(self.vectors.shape[1]) if self._weights is None else 1

    @property
    def dimension(self) -> int:
        """2P."""
        return int(self.vectors.shape[2])

    def rows(self, numbers: NDArray[np.int64] | slice) -> Tensor:
        """Map n example numbers to their layers (L + 1, n, places, 2P)."""
        places = self.index[numbers]
        if self._weights is None:
            chosen = np.ascontiguousarray(self.vectors[places])
            return torch.from_numpy(chosen).permute(2, 0, 1, 3)
        weights = np.asarray(self._weights, np.float32)
        used = np.flatnonzero(weights)
        chosen = self.vectors[places[..., np.newaxis], used]
        return torch.from_numpy(np.einsum("l,npld->npd", weights[used], chosen))[None]

    def mixed(self, weights: Sequence[float]) -> "Features":
        """Return features of one layer: the sum of all layers by these weights, gamma 1."""
        return Features(self.examples, self.vectors, self.index, weights)

    def take(self, numbers: Sequence[int]) -> "Features":
        """Return the features of the examples of these numbers; the vectors are shared."""
        chosen = self.index[np.array(numbers, np.int64)]
        examples = self.examples.take(numbers)
        return Features(examples, self.vectors, chosen, self._weights)


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
    """Compute the vectors of all places of some examples; yield them.

    `on_tokens` is called with the tokens done and those of all places. Over `memory_bytes` the
    vectors lie in a temporary file, which is deleted at the end. Raises FitError
    for vectors that are not finite, and OSError for a full disk.
    """
    numbers: dict[Place, int] = {}
    rows = [[numbers.setdefault(place, len(numbers)) for place in e] for e in examples.places]
    index = np.array(rows, np.int64).reshape(len(rows), -1)
    by_sentence: dict[int, list[tuple[int, int | None]]] = {}
    for place, row in numbers.items():
        by_sentence.setdefault(place.sentence, []).append((row, place.token))
    used = list(by_sentence)
    sentences = [examples.sentences[number] for number in used]
    total, done, told = sum(map(len, sentences)), 0, 0
    with tempfile.TemporaryDirectory(prefix="elmo-fit-") as folder:
        vectors: NDArray[np.float32] | None = None
        for number, layers in encode(sentences):
            if not layers.isfinite().all():
                raise FitError(
                    f"the vectors of {shown(' '.join(sentences[number]))} are not finite"
                )
            if vectors is None:
                size = len(numbers), layers.shape[0], layers.shape[2]
                vectors = _array(Path(folder) / "vectors.npy", size, memory_bytes)
            for row, token in by_sentence[used[number]]:
                vectors[row] = _at(layers, token)
            done += len(sentences[number])
            if done - told >= BATCH_TOKENS or done == total:
                on_tokens(done, total)
                told = done
        vectors = np.empty((0, 1, 1), np.float32) if vectors is None else vectors
        yield Features(examples, vectors, index)


def _array(path: Path, shape: tuple[int, ...], memory_bytes: int) -> NDArray[np.float32]:
    """Return an array of zeros: in memory, or above `memory_bytes` in a file."""
    if 4 * math.prod(shape) <= memory_bytes:
        return np.zeros(shape, np.float32)
    return mapped_array(path, shape, np.float32)


def _at(layers: Tensor, token: int | None) -> NDArray[np.float32]:
    """Map (L + 1, n, 2P) to (L + 1, 2P): one token, or the mean; an empty sentence gives zeros."""
    if token is not None:
        chosen = layers[:, token]
    elif layers.shape[1]:
        chosen = layers.mean(dim=1)
    else:
        chosen = layers.new_zeros(layers.shape[0], layers.shape[2])
    array: NDArray[np.float32] = chosen.numpy()
    return array
