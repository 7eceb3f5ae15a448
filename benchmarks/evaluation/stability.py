"""Stability: how far one rounding of the weights moves the vectors of ordinary and of odd text.

A recurrent network may amplify a small difference from token to token. The vectors of such a
network depend on the processor, on the batch and on the precision.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from elmo_model.inference.centre import sentences
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import ElmoNetwork

NOISE = 1e-7
"""Standard deviation of the relative change of every weight: one rounding of float32."""
BAR = 1e-4
"""Largest change of a value in a stable network: ten times and more what rounding moves there."""
TOKENS = 300
"""Tokens of every text."""
TEXTS = 20
"""Texts of every set."""

_FUNCTION_WORDS = "the of to and a in is it you that he was for on are with as his they be at one"
_CODE = "for ( i = 0 ; < n ++ ) { return x [ ] == null ? y : -1 } def self . import != && ' ' #"
_AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"

Texts = list[list[str]]


@dataclass(frozen=True, slots=True)
class Stability:
    """The largest change of a value in each layer, the token layer first, over the texts of a set.

    `over` of the `texts` have a vector that moves by more than `BAR`, a direction for the first
    time after `first` tokens; None where there is none. `bfloat16` is the mean cosine of the
    vectors of that precision to those of float32, in the worst layer.
    """

    name: str
    layers: tuple[float, ...]
    texts: int
    over: int
    first: int | None
    bfloat16: float


def stability(elmo: ElmoNetwork, texts: int = TEXTS) -> Iterator[Stability]:
    """Compare a network with a copy whose weight matrices are multiplied by 1 + noise, by set."""
    exact = deepcopy(elmo).cpu().float()  # products of a GPU in TF32 round more than `NOISE`
    plain, noisy = Encoder.of(exact), Encoder.of(_with_noise(exact))
    rounded = Encoder.of(exact, "bfloat16")
    for name, some in sets(texts).items():
        vectors = plain.embed(some)
        yield _compare(name, vectors, noisy.embed(some), rounded.embed(some))


def sets(texts: int) -> dict[str, Texts]:
    """Return texts of `TOKENS` tokens of every kind, which a seed makes."""
    words = sorted({word for sentence in sentences() for word in sentence})
    numbered = [*_FUNCTION_WORDS.split(), *(f"tok{number}" for number in range(1, 601))]
    made: dict[str, Callable[[random.Random], list[str]]] = {
        "numbers of one to four digits": lambda draw: _each(_number, draw),
        "one word, repeated": lambda draw: [draw.choice(words)] * TOKENS,
        "function words, tok1 to tok600": lambda draw: draw.choices(numbered, k=TOKENS),
        "prose in capitals": lambda draw: [word.upper() for word in _prose(draw)],
        "amino acids": lambda draw: draw.choices(_AMINO_ACIDS, k=TOKENS),
        "product codes, names, hashtags": lambda draw: _each(_label, draw),
        "code": lambda draw: draw.choices(_CODE.split(), k=TOKENS),
        "shuffled prose": lambda draw: draw.sample(_prose(draw), TOKENS),
        "prose": _prose,
    }
    return {
        name: [make(random.Random(f"{name}, {number}")) for number in range(texts)]
        for name, make in made.items()
    }


def _each(make: Callable[[random.Random], str], draw: random.Random) -> list[str]:
    return [make(draw) for _ in range(TOKENS)]


def _number(draw: random.Random) -> str:
    return str(draw.randrange(10 ** draw.randint(1, 4)))


def _label(draw: random.Random) -> str:
    letters = "".join(draw.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=draw.randint(2, 6)))
    return draw.choice((f"{letters}-{_number(draw)}", letters.capitalize(), f"#{letters.lower()}"))


def _prose(draw: random.Random) -> list[str]:
    """Return whole sentences of the text that comes with the program, in any order, cut."""
    return [word for sentence in draw.sample(sentences(), 60) for word in sentence][:TOKENS]


def _with_noise(elmo: ElmoNetwork) -> ElmoNetwork:
    copy = deepcopy(elmo)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in copy.parameters():
            if weight.dim() > 1:
                noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_(weight.double() * (1 + NOISE * noise))
    return copy


def _compare(
    name: str, plain: Sequence[Tensor], noisy: Sequence[Tensor], rounded: Sequence[Tensor]
) -> Stability:
    """Compare the layers (L + 1, n, 2P) of every text."""
    pairs = zip(plain, noisy, strict=True)
    moved = torch.stack([(a - b).abs() for a, b in pairs])  # (texts, L + 1, n, 2P)
    # Of each direction (texts, n).
    forward, backward = (half.amax(dim=(1, 3)) > BAR for half in moved.chunk(2, dim=3))
    moves = (forward | backward.flip(1)).any(dim=0).nonzero()
    pairs = zip(plain, rounded, strict=True)
    cosines = torch.stack([functional.cosine_similarity(a, b, dim=2) for a, b in pairs])
    return Stability(
        name,
        tuple(moved.amax(dim=(0, 2, 3)).tolist()),
        len(plain),
        int((forward | backward).any(dim=1).sum()),
        int(moves[0]) if len(moves) else None,
        float(cosines.double().mean(dim=(0, 2)).min()),
    )
