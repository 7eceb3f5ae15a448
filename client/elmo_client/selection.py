"""Which vectors a call asks for, and how many bytes its response takes."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from elmo_client.errors import CannotSend

LayerName = Literal["all", "top", "average", "sum", "concat"]
Layers = LayerName | int | Sequence[int]
Mix = Mapping[str, Any] | Sequence[float]
Pooling = Literal["none", "mean", "max"]
Dtype = Literal["float32", "float16"]

_ITEM_BYTES = {"float32": 4, "float16": 2}


class EmbedOptions(TypedDict, total=False):
    """Which vectors a call asks for; at most one of `layers`, `task` and `mix` may be given.

    layers: "all" (the default), "top", "average", "sum", "concat", the number of a layer, or a list
        of numbers, which keeps the axis of layers; 0 is the token layer.
    task: name of a registered task, whose weights mix the layers.
    mix: weights of such a mix: one raw number per layer, before the softmax; or
        {"weights": [...], "gamma": 1.0, "layer_norm": False}.
    pooling: "mean" or "max" over the tokens of a sentence; "none" for a vector per token.
    dtype: "float32" or "float16", or the type of NumPy of that name.
    normalize: scale every vector to length 1, after pooling.
    """

    layers: Layers | None
    task: str | None
    mix: Mix | None
    pooling: Pooling
    dtype: Dtype | type[np.floating[Any]] | np.dtype[Any]
    normalize: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """The options of one `embed` or `stream` call.

    `members` are the members of the request's JSON body besides `sentences`. `layer_count` is the
    number of layers in each array: None means all layers of the model, side by side for `concat`;
    1 also stands for a mix.
    """

    members: Mapping[str, Any]
    layer_count: int | None
    pooling: Pooling
    dtype: Dtype

    @classmethod
    def of(cls, **options: Unpack[EmbedOptions]) -> "Selection":
        """Return the members that a call sends; the server checks their values.

        Raises CannotSend if more than one of `layers`, `task` and `mix` is given, and TypeError for
        a `dtype` that NumPy does not know.
        """
        members: dict[str, Any] = {"pooling": "none", "dtype": "float32", **given(options)}
        exclusive = [name for name in ("layers", "task", "mix") if name in members]
        if len(exclusive) > 1:
            raise CannotSend(f"{' and '.join(exclusive)} are given; give at most one of them")
        layer_count = 1 if exclusive else None
        if "layers" in members:
            members["layers"] = layers = without_arrays(members["layers"])
            layer_count = _layer_count(layers)
        if "mix" in members:
            members["mix"] = mix_of(members["mix"])
        members["dtype"] = np.dtype(members["dtype"]).name
        return cls(members, layer_count, members["pooling"], members["dtype"])

    def with_members(self, **members: Any) -> "Selection":
        """Return a selection with more members in the body; those that are None are left out."""
        return replace(self, members={**self.members, **given(members)})

    def response_bytes(self, tokens: int, dimension: int, model_layers: int) -> int:
        """Return the bytes of the vectors of one sentence of `tokens` tokens."""
        layers = model_layers if self.layer_count is None else self.layer_count
        rows = tokens if self.pooling == "none" else 1
        return layers * rows * dimension * _ITEM_BYTES.get(self.dtype, 4)


NOTHING = Selection({}, 0, "none", "float32")
"""No vectors, for requests that return tokens alone."""


def mix_of(mix: Mix) -> dict[str, Any]:
    """Return a mix as the member of a request."""
    members = dict(mix) if isinstance(mix, Mapping) else {"weights": mix}
    return {name: without_arrays(value) for name, value in members.items()}


def given(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def without_arrays(value: Any) -> Any:
    """Return an array or a number of NumPy as Python's; other values as they are."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _layer_count(layers: Layers) -> int | None:
    """Return the number of layers in an array; None for all of the model."""
    if isinstance(layers, str):
        return None if layers in ("all", "concat") else 1
    return len(layers) if isinstance(layers, Sized) else 1
