"""The centre of a model: the mean of each layer over a text.

All vectors of a layer share a large common part, so that the cosine of any two of them is far above
0 (Mu and Viswanath 2018, Ethayarajh 2019). Without their centre, cosines tell more.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from elmo_model.network.description import Centre
from elmo_model.text.by_length import by_length

if TYPE_CHECKING:  # the server imports this module without torch
    from torch import Tensor

    from elmo_model.inference.encoder import Encoder

TEXT: Final = "english"
"""The name of the text that comes with the program: the centre of a model that has no other."""

CENTRE_TOKENS: Final = 10_000
"""Tokens of another text that are enough. More of them take longer."""

_FILE: Final = Path(__file__).parents[1] / "models" / f"{TEXT}.txt"


class Network(Protocol):
    """A network that computes all layers of a batch: an `Encoder` or an `ElmoNetwork`."""

    def embed(self, sentences: Sequence[Sequence[str]]) -> list["Tensor"]:
        """Map each sentence of n tokens to its layers (L + 1, n, 2P), without boundaries."""


@cache
def sentences() -> tuple[tuple[str, ...], ...]:
    """Return the sentences of the text, which is tokenised as the Penn Treebank is."""
    return tuple(tuple(line.split(" ")) for line in _FILE.read_text(encoding="utf-8").splitlines())


def first_tokens(text: Sequence[Sequence[str]], count: int) -> Sequence[Sequence[str]]:
    """Return the first sentences of a text, which have `count` tokens or a little more."""
    ends = accumulate(map(len, text))
    return text[: next((number for number, end in enumerate(ends, 1) if end >= count), len(text))]


def stated_or_computed(encoder: "Encoder", max_tokens: int) -> Centre:
    """Return the centre that the checkpoint of an encoder states, or that of the built-in text."""
    return encoder.origin.description.centre or centre_of(encoder, max_tokens)


def centre_of(
    network: Network,
    max_tokens: int,
    text: Sequence[Sequence[str]] | None = None,
    name: str = TEXT,
) -> Centre:
    """Return the centre of a network over a text `name`, by default that of the program.

    It is computed in batches of at most `max_tokens` tokens.
    """
    text = sentences() if text is None else text
    sums = [
        layers.double().sum(dim=1).cpu().numpy()
        for batch in by_length(range(len(text)), text, max_tokens)
        for layers in network.embed([text[number] for number in batch])
    ]
    tokens = sum(map(len, text))
    return Centre(name, tokens, (np.sum(sums, axis=0) / tokens).astype(np.float32))
