"""Arguments of the public methods, which are refused with the names that there are."""

import difflib
import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, TypeVar, get_args

from elmo_client.transport.session import ClientOptions

_Class = TypeVar("_Class", bound=type)


def named_keywords(cls: _Class) -> _Class:
    """Let the public methods of a class raise a TypeError that names their arguments.

    Python would count positional arguments, suggest no keyword, and call a method of `Client` one
    of `AsyncClient`. A method may have its options as `**options: Unpack[...]` of a TypedDict.
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _checked(cls.__name__ if name == "__init__" else name, method))
    return cls


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    _, *parameters = inspect.signature(method).parameters.values()  # the first one is self
    positional = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    keywords = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    for each in parameters:
        if each.kind is Parameter.VAR_KEYWORD:
            keywords += get_args(each.annotation)[0].__annotations__
    names = [*positional, *keywords]
    needed = [each.name for each in parameters if each.default is each.empty and each.name in names]

    @functools.wraps(method)
    def call(self: Any, /, *given: Any, **options: Any) -> Any:
        if len(given) > len(positional):  # not shown: one of them may be a key
            first = " and ".join(positional) or "nothing"
            raise TypeError(f"{name} takes {first} by position; by name: {', '.join(keywords)}")
        for option in options.keys() - names:
            if option in ClientOptions.__annotations__:
                raise TypeError(f"{name} has no keyword {option}; it is one of Client(url, ...)")
            near = difflib.get_close_matches(option, names, n=1)
            meant = f"did you mean {near[0]}? There" if near else "there"
            raise TypeError(f"{name} has no keyword {option}; {meant} are {', '.join(names)}")
        passed = {*options, *positional[: len(given)]}
        if absent := [each for each in needed if each not in passed]:
            raise TypeError(f"{name} needs {' and '.join(absent)}; there are {', '.join(names)}")
        return method(self, *given, **options)

    return call
