"""Which vectors of a sentence a file holds."""

from __future__ import annotations

from elmo_serve.files.sentence import FileError
from elmo_serve.output import Output


def selection(layers: str | int, count: int) -> Output:
    """Return what is wanted of a model of `count` layers: all, top, average, or one by its number.

    Raises FileError for a layer that there is not.
    """
    match layers:
        case "all":
            return Output(layers=tuple(range(count)), stacked=True)
        case "top":
            return Output(layers=(count - 1,))
        case "average":
            return Output(weights=(0.0,) * count)
        case int(number) if 0 <= number < count:
            return Output(layers=(number,))
    raise FileError(f"there is no layer {layers}; there are 0 to {count - 1}")
