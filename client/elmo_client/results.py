"""What the clients return: vectors, tokens, scores and tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[Any]

Offset = tuple[int, int]
"""Start and end of a token in its text, in code points."""


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The tokens of a text: `text[start:end]` is the token (in upper case for `characters`)."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Offset, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedText:
    """The tokens of a text, as in `TokenizedText`, and their vectors.

    The shape of `vectors` is that of the array that `embed` returns for a list of these tokens.
    """

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[Offset, ...]
    vectors: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The surprisal of each token of a sentence in bits, -log2 of its probability.

    `forward` is predicted from the tokens before, `backward` from those after, `both` is their
    mean: arrays (n,). `unknown` is true for a token that was scored as `<UNK>`. `end` has the
    boundary that ends each direction.
    """

    tokens: tuple[str, ...]
    forward: NDArray[np.float32]
    backward: NDArray[np.float32]
    both: NDArray[np.float32]
    unknown: NDArray[np.bool_]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Task:
    """A scalar mix that the server keeps under a name.

    `weights` are the L + 1 raw scalars, before the softmax (AllenNLP's `scalar_parameters`);
    `gamma` scales the mix. With `layer_norm` each layer is normalised over its sentence first.
    `measure` is that of its fit, "accuracy" or "span_f1"; None where it is unknown.
    """

    name: str
    weights: tuple[float, ...]
    gamma: float = 1.0
    layer_norm: bool = False
    description: str = ""
    measure: str | None = None
