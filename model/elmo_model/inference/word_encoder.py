"""Words to vectors for inference: the token embedder behind a cache."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_model.inference.caches import WordCache
from elmo_model.inference.row_buckets import in_strides
from elmo_model.network.config import ElmoConfig
from elmo_model.network.token_embedder import TokenEmbedder, distinct


@dataclass(frozen=True, slots=True)
class DistinctWords:
    """The m distinct words among n words, their vectors (m, P), and the row (n,) of each word."""

    words: tuple[str, ...]
    vectors: Tensor
    index: Tensor

    def everywhere(self) -> Tensor:
        """Return the vectors (n, P) of all words."""
        return self.vectors.index_select(0, self.index)


class WordEncoder:
    """A token embedder for inference, and a cache of at most `cache_size` words.

    The embedder is a new module over the weights of `embedder`, which lie in the same memory.
    """

    def __init__(self, embedder: TokenEmbedder, config: ElmoConfig, cache_size: int) -> None:
        with torch.device("meta"):
            self._embedder = TokenEmbedder(config, embedder.alphabet)
        weights = {name: value.detach() for name, value in embedder.state_dict().items()}
        self._embedder.load_state_dict(weights, assign=True)
        self._embedder.requires_grad_(False).eval()
        self.cache = WordCache(cache_size)

    def encode(self, words: Sequence[str]) -> DistinctWords:
        """Look up n words, each distinct word once."""
        different, index = distinct(words)
        vectors = self.cache.look_up(different, self.compute)
        rows = torch.tensor(index, dtype=torch.int64).to(vectors.device)
        return DistinctWords(different, vectors, rows)

    def compute(self, words: Sequence[str]) -> Tensor:
        """Map m distinct words to (m, P) without the cache."""
        return self._embedder.embed(words, in_strides)
