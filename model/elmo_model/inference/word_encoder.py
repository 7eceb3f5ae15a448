"""Words to vectors for inference: the token embedder behind a cache."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model.inference.cache import Lease, Tables, WordCache
from elmo_model.inference.linear import linear_of
from elmo_model.inference.row_buckets import (
    PRODUCT_COUNTS,
    RowCounts,
    argument_where_simd_differs,
    batch_invariant_counts,
    counts_of_product,
    in_parts,
)
from elmo_model.network.config import ElmoConfig
from elmo_model.network.token_encoder import TokenEmbedder
from elmo_model.threads import ParallelDirections

# Rows of a part of a product of the token embedder. A larger number makes the trial longer.
_MOST_ROWS = 128
# Words that are looked up before the next stop. At the original size 256 new ones take about 50 ms.
# A smaller number makes parts of the CNN's products smaller.
_PART_WORDS = 256


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """n tokens, a table (rows, P), and the row (n,) of each token in it, one a distinct word.

    Where the table is that of a cache, `lease` keeps the rows.
    """

    tokens: Sequence[str]
    vectors: Tensor
    index: NDArray[np.int64]
    lease: Lease | None = None


class WordEncoder:
    """A token embedder for inference, and a cache of at most `cache_size` words.

    The embedder is a new module over the weights of `embedder`, which lie in the same memory. On a
    CPU its products are packed, in memory of their own, and a word has the same bits in any
    company.
    """

    def __init__(
        self,
        embedder: TokenEmbedder,
        config: ElmoConfig,
        cache_size: int,
        directions: ParallelDirections,
    ) -> None:
        with torch.device("meta"):
            self._embedder = TokenEmbedder(config, embedder.alphabet)
        weights = {name: value.detach() for name, value in embedder.state_dict().items()}
        self._embedder.load_state_dict(weights, assign=True)
        self._embedder.requires_grad_(False).eval()
        self._counts = PRODUCT_COUNTS
        if all(value.device.type == "cpu" for value in weights.values()):
            _make_exact(self._embedder, directions)
            if config.char_cnn is not None:
                self._counts = _word_counts(config.char_cnn.width, directions)
        any_weight = next(iter(weights.values()))
        self._none = any_weight.new_empty(0, config.lstm.projection)  # (0, P), of no word
        self.cache = WordCache(cache_size, self._none)

    def encode(self, tokens: Sequence[str]) -> tuple[TokenVectors, Iterator[None]]:
        """Look up n tokens, and compute each distinct word once where one is not in the cache.

        The vectors are there once the iterator, which computes them part by part, has ended.
        """
        if (lease := self.cache.known(tokens)) is not None:
            return TokenVectors(tokens, lease.tables[0], lease.rows, lease), iter(())
        # by length, so that the words of a part have the same few widths in characters
        words = sorted(dict.fromkeys(tokens), key=len)
        numbers = {word: number for number, word in enumerate(words)}
        index = np.fromiter(map(numbers.__getitem__, tokens), np.int64, len(tokens))
        vectors = self._none.new_empty(len(words), self._none.shape[1])

        def parts() -> Iterator[None]:
            for start in range(0, len(words), _PART_WORDS):
                part = words[start : start + _PART_WORDS]
                found = self.cache.look_up(part, partial(self._computed, part)).vectors()
                vectors[start : start + len(part)] = found
                yield  # without a lease

        return TokenVectors(tokens, vectors, index), parts()

    def compute(self, words: Sequence[str]) -> Tensor:
        """Map m distinct words to (m, P) without the cache."""
        return self._embedder.embed(words, self._counts.round_up, self._counts.largest)

    def _computed(self, words: Sequence[str], places: Sequence[int]) -> Tables:
        return (self.compute([words[place] for place in places]),)


class ExactLinear(nn.Module):
    """A float32 linear map on a CPU that gives a row the same bits in any company."""

    def __init__(self, weight: Tensor, bias: Tensor | None, directions: ParallelDirections) -> None:
        super().__init__()
        self._linear = linear_of(weight.detach(), "float32")
        self._bias = None if bias is None else bias.detach()
        self._counts = counts_of_product(
            "float32",
            (weight.shape[0], weight.shape[1]),
            bias is not None,
            PRODUCT_COUNTS.up_to(_MOST_ROWS),
            directions.counts,
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (rows, inputs) to (rows, outputs)."""
        return in_parts(partial(self._linear.affine, bias=self._bias), inputs, self._counts)


class _Convolution(nn.Module):
    """The convolution of oneDNN. torch would take another one for few words, with other bits."""

    def __init__(self, trained: nn.Conv1d) -> None:
        super().__init__()
        self.weight, self.bias = trained.weight.unsqueeze(2), trained.bias

    def forward(self, embedded: Tensor) -> Tensor:
        """Map (words, embedding, characters) to (words, filters, positions)."""
        images = embedded.contiguous().unsqueeze(2)
        filtered: Tensor = torch.mkldnn_convolution(
            images, self.weight, self.bias, (0, 0), (1, 1), (1, 1), 1
        )
        return filtered.squeeze(2)


def _make_exact(module: nn.Module, directions: ParallelDirections) -> None:
    """Replace the products below a module by those that give a row the same bits."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, ExactLinear(child.weight, child.bias, directions))
        elif isinstance(child, nn.Conv1d):
            if torch._C._has_mkldnn and child.weight.dtype == torch.float32:
                # a list of modules keeps its children by their numbers
                module._modules[name] = _Convolution(child)
        else:
            _make_exact(child, directions)


def _word_counts(width: int, directions: ParallelDirections) -> RowCounts:
    """Return numbers of words with which the functions of the CNN's filters have the same bits."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(3, PRODUCT_COUNTS.largest, width, generator=generator)

    def functions(rows: int) -> list[Tensor]:
        ends = [
            function(torch.full((rows, width), argument_where_simd_differs(function)))
            for function in (torch.sigmoid, torch.tanh)
        ]
        return [*ends, torch.lerp(*numbers[:, :rows])]

    return batch_invariant_counts(
        ("words", width), lambda: [functions], PRODUCT_COUNTS, directions.counts
    )
