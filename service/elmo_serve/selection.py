"""The vectors that a client asks for of one sentence: layers or a mix, pooling, dtype, shape."""

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from elmo_model.errors import ElmoError, counted, shown
from elmo_serve.errors import FieldError, pointer

Pooling = Literal["none", "mean", "max"]
Dtype = Literal["float32", "float16"]
LayerName = Literal["all", "top", "average", "sum", "concat"]

ITEM_SIZES: Final[dict[Dtype, int]] = {"float32": 4, "float16": 2}
"""Bytes of one number."""

MAX_FLOAT32: Final = 3.4028234663852886e38
"""The largest finite float32: a larger weight would become infinite."""

MAX_GAMMA: Final = 1_000
"""Largest absolute gamma of a mix, far above any trained one. A mix with values up to 65 still fits
into a float16 (at most 65,504) at this scale; a larger gamma makes float16 vectors infinite."""


@dataclass(frozen=True, slots=True)
class Output:
    """The vectors of one sentence; sentences with different outputs may share a batch.

    `layers` are layer numbers in the order of the response; `weights` are the L + 1 raw scalars of
    a mix, before the softmax. Exactly one of the two is given. `layer_norm` normalises each layer
    over the sentence first. `stacked` keeps the layer axis; `concat` joins the layers of a token
    to one vector. `normalize` scales each vector to length 1, after pooling.
    """

    layers: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None
    gamma: float = 1.0
    layer_norm: bool = False
    stacked: bool = False
    pooling: Pooling = "none"
    dtype: Dtype = "float32"
    concat: bool = False
    normalize: bool = False

    def width(self, dimension: int) -> int:
        """Return the width of a vector: `dimension`, the model's 2P, or (L + 1) 2P for concat."""
        joined = len(self.layers) if self.concat and self.layers else 1
        return dimension * joined

    def shape(self, tokens: int, dimension: int) -> tuple[int, ...]:
        """Return (layers, n, 2P) when stacked, (n, width) otherwise; pooling removes the n."""
        stack = (len(self.layers),) if self.stacked and self.layers is not None else ()
        rows = (tokens,) if self.pooling == "none" else ()
        return (*stack, *rows, self.width(dimension))

    def size(self, tokens: int, dimension: int) -> int:
        """Return the size in bytes for one sentence of `tokens` tokens."""
        return math.prod(self.shape(tokens, dimension)) * ITEM_SIZES[self.dtype]

    def work(self, cost: int) -> int:
        """Return the time to compute it, in tokens; `cost` are those of its sentence."""
        return cost


T = TypeVar("T", bound=Hashable)


@functools.lru_cache(maxsize=256)
def interned(output: T) -> T:
    """Return one object for equal outputs: a message to a worker holds it only once."""
    return output


class SelectionError(ElmoError):
    """A selection names layers that the model lacks. `faults` points to each (`/layers/1`)."""

    def __init__(self, faults: Sequence[FieldError]) -> None:
        super().__init__(faults[0].detail)
        self.faults = tuple(faults)


NAMED: Final[dict[str, Callable[[int], Output]]] = {
    "all": lambda count: Output(layers=tuple(range(count)), stacked=True),
    "top": lambda count: Output(layers=(count - 1,)),
    "average": lambda count: Output(weights=(0.0,) * count),
    "sum": lambda count: Output(weights=(0.0,) * count, gamma=float(count)),
    "concat": lambda count: Output(layers=tuple(range(count)), concat=True),
}
"""The output of each named selection, for a model of `count` layers (L + 1, token layer included).
Equal weights are equal after the softmax: average and sum are mixes."""


def select(
    layers: str | Sequence[int] | int,
    count: int,
    *,
    pooling: Pooling = "none",
    normalize: bool = False,
) -> Output:
    """Return the output that a selection of layers means, for a model of `count` layers.

    `layers` is a name of `NAMED`, a list of layer numbers (the layer axis stays, also for a list of
    one) or one number (no layer axis).

    Raises:
        SelectionError: the name is unknown, a number is not between 0 and `count` - 1, or there are
            more than `count` numbers.
    """
    if isinstance(layers, str):
        if layers not in NAMED:
            names = ", ".join(NAMED)
            detail = f"there is no layer {shown(layers)}; there are {names} and 0 to {count - 1}"
            raise SelectionError([FieldError(pointer("layers"), detail)])
        output = NAMED[layers](count)
    else:
        numbers = (layers,) if isinstance(layers, int) else tuple(layers)
        output = Output(layers=numbers, stacked=not isinstance(layers, int))
        if faults := _layer_faults(numbers, count, stacked=output.stacked):
            raise SelectionError(faults)
    return replace(output, pooling=pooling, normalize=normalize)


def mixture(mix: Any, layers: int) -> Output:
    """Return the output of a mix, an object with `weights`, `gamma` and `layer_norm`.

    Raises SelectionError for a mix that is not for a model of `layers` layers.
    """
    if (fault := weights_fault(mix.weights, layers, ("mix",))) is not None:
        raise SelectionError([fault])
    return Output(weights=tuple(mix.weights), gamma=mix.gamma, layer_norm=mix.layer_norm)


def _layer_faults(numbers: Sequence[int], count: int, *, stacked: bool) -> list[FieldError]:
    faults = [
        FieldError(
            pointer("layers", index) if stacked else pointer("layers"),
            f"there is no layer {shown(number)}; there are 0 to {count - 1}",
        )
        for index, number in enumerate(numbers[:count])
        if not 0 <= number < count
    ]
    if len(numbers) > count:
        faults.append(FieldError(pointer("layers"), f"{len(numbers)} layers; there are {count}"))
    return faults


def weights_fault(
    weights: Sequence[float], layers: int, at: tuple[str, ...] = ()
) -> FieldError | None:
    """Return the fault of a mix whose weights are not one for each of `layers`, or None.

    `at` is the place of the mix in the request body.
    """
    if len(weights) == layers:
        return None
    detail = f"found {counted(len(weights), 'number')}, this model takes {layers}, one a layer"
    return FieldError(pointer(*at, "weights"), detail)
