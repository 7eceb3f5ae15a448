"""The facts that a checkpoint states beside its weights. A module without torch."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Centre:
    """The mean of each layer, (L + 1, 2P) in float32, over `tokens` tokens of the text `text`."""

    text: str
    tokens: int
    layers: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Trained:
    """The training of a network: the tokens that each direction read, repeated ones included.

    `perplexity` is that of held-out text after the last step; None where it was not measured.
    """

    tokens: int
    perplexity: float | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """The facts of a checkpoint that decide no vector; None where it does not state them.

    `tokenizer` is the name of the one that split the training text, and `language` the code of the
    text's language, by which `moses` splits.
    """

    tokenizer: str | None = None
    language: str | None = None
    centre: Centre | None = field(default=None, repr=False)
    trained: Trained | None = None
