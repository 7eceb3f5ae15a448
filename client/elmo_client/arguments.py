"""Unknown keyword arguments, refused with the names of the allowed ones."""

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def names_allowed(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Return a method that raises TypeError for an unknown argument and lists its arguments."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        for name in options:
            if name not in names:
                where = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"{where} has no argument {name!r}; it has {', '.join(names)}")
        return function(*arguments, **options)

    return call
