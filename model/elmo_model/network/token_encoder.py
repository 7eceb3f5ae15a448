"""The token encoder: words to vectors without context, by their characters or from a table."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from elmo_model.network.config import CharCNNConfig, ElmoConfig
from elmo_model.text.alphabets import Alphabet, WordAlphabet

RoundUp = Callable[[int], int]
"""Map a number of rows to the number of rows to compute, at least as many."""

# Character positions that pass the CNN at once. A larger number costs memory (the widest published
# filter gives 1,024 numbers for each position) and makes the products no faster
# (benchmarks/network.py, "none" cached).
_POSITIONS = 8192
# Words that pass the CNN at once, at most. A larger number makes short words no faster.
_WORDS = 256
# Characters by which words differ in width: few different widths, because oneDNN compiles a program
# for each shape (`elmo_model.inference.row_buckets`).
_WIDTH_STEP = 8


class TokenEmbedder(nn.Module):
    """An alphabet and a character CNN, a table of words, or both side by side."""

    def __init__(self, config: ElmoConfig, alphabet: Alphabet) -> None:
        super().__init__()
        cnn, words, width = config.char_cnn, config.words, config.lstm.projection
        if words and not isinstance(alphabet, WordAlphabet):
            raise TypeError(f"{type(alphabet).__name__} has no rows for words, expected them")
        # with a table of words the CNN is not projected by itself: both are projected together
        own = cnn.width if cnn and words else width
        self.char_cnn = CharCNN(cnn, own) if cnn else None
        self.words = nn.Parameter(torch.empty(words.count, words.width)) if words else None
        self.projection = (
            nn.Linear(config.token_width, width) if words and words.projection else nn.Identity()
        )
        self.alphabet = alphabet
        self._widest = cnn.widest if cnn else 0

    def forward(self, words: Sequence[str]) -> Tensor:
        """Map n words to (n, P)."""
        different, index = distinct(words)
        vectors = self.embed(different)  # (m, P)
        return vectors.index_select(0, _to_device(np.array(index, np.int64), vectors.device))

    def embed(
        self, words: Sequence[str], round_up: RoundUp = lambda rows: rows, largest: int = _WORDS
    ) -> Tensor:
        """Map m distinct words to (m, P).

        The CNN computes `round_up` of the words of each chunk, and the surplus is dropped. A chunk
        has at most `largest` words: more are no row count of equal bits.
        """
        parts = []
        if self.words is not None and isinstance(self.alphabet, WordAlphabet):
            rows = _to_device(self.alphabet.word_ids(words), self.words.device)
            parts.append(functional.embedding(rows, self.words))
        if self.char_cnn is not None:
            parts.append(self._encode_characters(words, self.char_cnn, round_up, largest))
        # the vector from the table comes first, as in ELMoForManyLangs
        vectors: Tensor = self.projection(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
        return vectors

    def _encode_characters(
        self, words: Sequence[str], char_cnn: "CharCNN", round_up: RoundUp, largest: int
    ) -> Tensor:
        """Map m words to (m, width) through the character CNN, in chunks of similar length."""
        lengths = self.alphabet.lengths(words)
        device = char_cnn.characters.device
        order = sorted(range(len(words)), key=lengths.__getitem__)
        chunks = []
        for chunk, width in self._chunks(order, lengths, min(_WORDS, largest)):
            filling = [""] * (round_up(len(chunk)) - len(chunk))
            ids = self.alphabet.encode([words[row] for row in chunk] + filling, width)
            chunks.append(char_cnn(_to_device(ids, device))[: len(chunk)])
        if not chunks:
            ids = self.alphabet.encode([], self._widest)
            chunks.append(char_cnn(_to_device(ids, device)))  # (0, width)
        return torch.cat(chunks).index_select(0, _to_device(np.argsort(order), device))

    def _chunks(
        self, order: list[int], lengths: list[int], most: int
    ) -> list[tuple[list[int], int]]:
        """Cut rows sorted by length; return each chunk of at most `most`, and its width."""
        chunks: list[tuple[list[int], int]] = []
        start = 0
        while start < len(order):
            end = start + 1
            width = self._width(lengths[order[start]])
            while end < len(order):
                wider = self._width(lengths[order[end]])
                if wider * (end + 1 - start) > _POSITIONS or end - start == most:
                    break
                width, end = wider, end + 1
            chunks.append((order[start:end], width))
            start = end
        return chunks

    def _width(self, length: int) -> int:
        """Return a width in characters that gives a word the vector of the full width.

        Convolution and maximum see the padding characters after a word, whose vector is not zero.
        One window of padding alone, as wide as the widest filter, holds every value that the
        maximum can meet there: more padding repeats it, less would lose it.
        """
        wide = -(-(length + self._widest) // _WIDTH_STEP) * _WIDTH_STEP
        return min(self.alphabet.max_characters, wide)


class CharCNN(nn.Module):
    """Characters, convolutions of several widths, maximum over positions, highways, projection.

    `width` is that of the token vector, P.
    """

    def __init__(self, config: CharCNNConfig, width: int) -> None:
        super().__init__()
        self.characters = nn.Parameter(torch.empty(config.characters, config.embedding))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.embedding, count, span) for span, count in config.filters
        )
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[config.activation]
        self.highways = nn.ModuleList(Highway(config.width) for _ in range(config.highways))
        self.projection = nn.Linear(config.width, width) if config.projection else nn.Identity()

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (words, characters) to (words, P).

        Convolutions and maximum see the padding characters of a word too, as in bilm-tf: the vector
        of a padding character is learnt and not zero.
        """
        embedded = functional.embedding(ids, self.characters)  # (words, characters, embedding)
        embedded = embedded.transpose(1, 2)  # (words, embedding, characters)
        # The activation rises, so it commutes with the maximum; after it there are fewer numbers.
        convolve = _by_module if ids.device.type == "cpu" else _by_product
        pooled = [_max_over_time(convolve(each, embedded)) for each in self.convolutions]
        vectors = self.activation(torch.cat(pooled, dim=1))  # (words, F)
        for highway in self.highways:
            vectors = highway(vectors)
        projected: Tensor = self.projection(vectors)  # (words, P)
        return projected


def _by_module(convolution: nn.Module, embedded: Tensor) -> Tensor:
    filtered: Tensor = convolution(embedded)
    return filtered


def _by_product(convolution: nn.Module, embedded: Tensor) -> Tensor:
    """Map (words, embedding, characters) to (words, filters, positions) by a matrix product.

    cuDNN would plan a convolution anew for each shape, about 1 ms for nearly every batch of
    training, and round its float32 factors to TF32, which torch's products do not.
    """
    assert isinstance(convolution, nn.Conv1d)  # for mypy
    windows = embedded.unfold(2, convolution.weight.shape[2], 1).transpose(1, 2).flatten(2)
    weight = convolution.weight.flatten(1)  # (filters, embedding x span)
    return functional.linear(windows, weight, convolution.bias).transpose(1, 2)


def _max_over_time(values: Tensor) -> Tensor:
    """Map (words, filters, positions) to (words, filters): the maximum over positions."""
    if torch.is_grad_enabled():
        # keeps the place of the maximum, for which the backward pass of amax would have to search
        return values.max(dim=2).values
    return values.amax(dim=2)


class Highway(nn.Module):
    """One highway layer (Srivastava et al. 2015) in the convention of bilm-tf.

    The gate called `carry` multiplies the transformed branch, against its name; AllenNLP's modules
    hold the negative of it. The transform is always a ReLU, whatever the activation of the CNN.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (words, width) to (words, width)."""
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, functional.relu(self.transform(inputs)), gate)


def _to_device(ids: NDArray[np.int64], device: torch.device) -> Tensor:
    """Return ids on a device, by a copy that does not wait for it."""
    return torch.from_numpy(ids).to(device, non_blocking=True)


def distinct(words: Sequence[str]) -> tuple[tuple[str, ...], list[int]]:
    """Return the m distinct words in order of first use, and the row of each of the n words."""
    rows: dict[str, int] = {}
    index = [rows.setdefault(word, len(rows)) for word in words]
    return tuple(rows), index
