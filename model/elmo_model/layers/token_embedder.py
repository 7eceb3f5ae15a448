"""The token embedder: words to context-free vectors, each distinct word computed once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.alphabets import Alphabet, WordAlphabet
from elmo_model.config import ElmoConfig
from elmo_model.inference.row_buckets import as_they_are, in_strides
from elmo_model.inference.word_cache import TokenCache
from elmo_model.layers.char_cnn import CharCNN

# Character positions that pass the CNN at once: bounds its memory (the widest published filter
# gives 1,024 numbers for each) while the products stay large.
_POSITIONS = 8192
_WIDTH_STEP = 8  # and few different widths, as of the rows in `elmo_model.inference.row_buckets`


@dataclass(frozen=True, slots=True)
class Distinct:
    """The m distinct ones of n words, their vectors (m, P), and the row (n,) of each of the n."""

    words: tuple[str, ...]
    vectors: Tensor
    index: Tensor


class TokenEmbedder(nn.Module):
    """Alphabet, cache, and a character CNN, a table of words, or both side by side."""

    def __init__(self, config: ElmoConfig, alphabet: Alphabet, cache: TokenCache) -> None:
        super().__init__()
        cnn, words, width = config.char_cnn, config.words, config.lstm.projection
        if words and not isinstance(alphabet, WordAlphabet):
            raise TypeError(f"{type(alphabet).__name__} has no rows for words, expected them")
        # beside a table the CNN gives its own width; what both say is projected together
        own = cnn.width if cnn and words else width
        self.char_cnn = CharCNN(cnn, own) if cnn else None
        self.words = nn.Parameter(torch.empty(words.count, words.width)) if words else None
        self.projection = (
            nn.Linear(config.token_width, width) if words and words.projection else nn.Identity()
        )
        self.alphabet = alphabet
        self.cache = cache
        self._widest = cnn.widest if cnn else 0
        self._cached_versions: tuple[int, ...] = ()

    def forward(self, words: Sequence[str]) -> Tensor:
        """Map n words to (n, P). While gradients are recorded the cache is left alone."""
        distinct = self.distinct(words)
        return distinct.vectors.index_select(0, distinct.index)

    def distinct(self, words: Sequence[str]) -> Distinct:
        """Look up n words, each distinct one once. While gradients are recorded nothing is kept."""
        rows: dict[str, int] = {}
        index = [rows.setdefault(word, len(rows)) for word in words]
        distinct = tuple(rows)
        if torch.is_grad_enabled():
            vectors = self.embed(distinct)
        else:
            self._forget_what_was_trained_away()
            vectors = self.cache.look_up(distinct, self.embed)
        places = torch.tensor(index, dtype=torch.int64).to(vectors.device)
        return Distinct(distinct, vectors, places)

    def embed(self, words: Sequence[str]) -> Tensor:
        """Map n distinct words to (n, P), without a look into the cache."""
        parts = []
        if self.words is not None and isinstance(self.alphabet, WordAlphabet):
            rows = torch.from_numpy(self.alphabet.word_ids(words))
            parts.append(functional.embedding(rows.to(self.words.device), self.words))
        if self.char_cnn is not None:
            parts.append(self._spell(words, self.char_cnn))
        # the word's own vector first, as ELMoForManyLangs has them
        vectors: Tensor = self.projection(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
        return vectors

    def _spell(self, words: Sequence[str], char_cnn: CharCNN) -> Tensor:
        """Map n words to (n, width) through the character CNN, in chunks of like length."""
        lengths = self.alphabet.lengths(words)
        device = char_cnn.characters.device
        order = sorted(range(len(words)), key=lengths.__getitem__)
        chunks = []
        count = as_they_are if torch.is_grad_enabled() else in_strides
        for chunk, width in self._chunks(order, lengths):
            filling = [""] * (count(len(chunk)) - len(chunk))
            ids = self.alphabet.encode([words[row] for row in chunk] + filling, width)
            chunks.append(char_cnn(torch.from_numpy(ids).to(device))[: len(chunk)])
        if not chunks:
            ids = self.alphabet.encode([], self._widest)
            chunks.append(char_cnn(torch.from_numpy(ids).to(device)))  # (0, width)
        back = torch.empty(len(words), dtype=torch.int64)
        back[torch.tensor(order, dtype=torch.int64)] = torch.arange(len(words))
        return torch.cat(chunks).index_select(0, back.to(device))

    def _chunks(self, order: list[int], lengths: list[int]) -> list[tuple[list[int], int]]:
        """Cut rows sorted by length; each chunk comes with the characters it needs.

        Beyond a word's end one window of padding alone, as wide as the widest filter, holds all
        that the maximum can meet: more padding repeats it, less would lose it.
        """
        chunks: list[tuple[list[int], int]] = []
        start = 0
        while start < len(order):
            end = start + 1
            width = self._exact_width(lengths[order[start]])
            while end < len(order):
                wider = self._exact_width(lengths[order[end]])
                if wider * (end + 1 - start) > _POSITIONS:
                    break
                width, end = wider, end + 1
            chunks.append((order[start:end], width))
            start = end
        return chunks

    def _exact_width(self, length: int) -> int:
        wide = -(-(length + self._widest) // _WIDTH_STEP) * _WIDTH_STEP
        return min(self.alphabet.max_characters, wide)

    def _forget_what_was_trained_away(self) -> None:
        versions = tuple(
            0 if parameter.is_inference() else parameter._version for parameter in self.parameters()
        )
        if versions != self._cached_versions:
            self.cache.clear()
            self._cached_versions = versions

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.cache.clear()  # another device or type: what is held belongs to the old one
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
