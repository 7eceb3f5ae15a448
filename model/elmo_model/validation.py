"""Values of files, checked by pydantic: a fault is one line with key, value and rule."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Final, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, WrapValidator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from elmo_model.errors import shown

_Kind = TypeVar("_Kind")

_RULE: Final = "rule"

_JSON_NAMES: Final = {
    "dataclass_type": "an object",
    "dict_type": "an object",
    "model_type": "an object",
    "tuple_type": "a list",
}
"""JSON's names of the values that pydantic names by Python's, by the type of the fault."""

MAX_SIZE: Final = 1 << 20
"""The largest size of any kind: far above every published one, far below an integer overflow."""

_MAX_ROWS: Final = 1 << 31
"""The most rows of a table of words, of which there may be millions."""


def rule(expected: str) -> WrapValidator:
    """Return a validator that reports every violation of a type with one text, `expected`."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(_RULE, "{expected}", {"expected": expected}) from None

    return WrapValidator(check)


Size = Annotated[int, Field(strict=True, ge=1, le=MAX_SIZE)]
Rows = Annotated[int, Field(strict=True, ge=1, le=_MAX_ROWS)]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE)]
CharacterLimit = Annotated[int, Field(strict=True, ge=3, le=MAX_SIZE)]
"""Begin-of-word, one character and end-of-word at least."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Filters = Annotated[
    tuple[tuple[Size, Size], ...], Field(min_length=1), rule("pairs of width and count")
]


@dataclass_transform(frozen_default=True)
def checked_dataclass(
    section: str, error: type[ValueError]
) -> Callable[[type[_Kind]], type[_Kind]]:
    """Make a frozen dataclass whose values are checked: `error` says which one is wrong.

    The keys of messages stand below `section`.
    """

    def decorate(kind: type[_Kind]) -> type[_Kind]:
        made = dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))(kind)
        init: Callable[..., None] = made.__init__

        def checked_init(self: object, *values: Any, **named: Any) -> None:
            try:
                init(self, *values, **named)
            except ValidationError as fault:
                raise error(described(fault, made, section)) from None

        made.__init__ = checked_init  # type: ignore[method-assign]
        return cast(type[_Kind], made)

    return decorate


def validated(kind: type[_Kind], values: object, section: str = "") -> _Kind:
    """Return values as a model or dataclass. Raises ValueError with the first fault in one line."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise ValueError(described(error, kind, section)) from None


def parsed(kind: type[_Kind], text: str, section: str = "") -> _Kind:
    """Return a JSON text as a model or dataclass, with numbers and strings as they are written.

    Raises ValueError with the first fault in one line.
    """
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(described(error, kind, section)) from None


def described(error: ValidationError, kind: Any, section: str = "") -> str:
    """Return the first fault of values for a model or dataclass `kind`."""
    fault = error.errors(include_url=False)[0]
    place = ((section,) if section else ()) + _named(kind, fault["loc"])
    key = ".".join(map(str, place)) or "it"
    if fault["type"] == "value_error":  # a rule of several values, which has words of its own
        return str(fault["ctx"]["error"])
    if fault["type"] == "json_invalid":
        return f"{section or 'it'} is not JSON: {fault['ctx']['error']}"
    if fault["type"] == "missing":
        return f"{key} is missing"
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{key} is not a known key"
    message = fault["msg"].removeprefix("Input should be ")
    expected = _JSON_NAMES.get(fault["type"], message)
    return f"{key} is {shown_json(fault['input'])}, expected {expected}"


def shown_json(value: object) -> str:
    """Return a value of a file for a message, as `shown` does: null, true and false as in JSON."""
    return json.dumps(value) if value is None or isinstance(value, bool) else shown(value)


def _named(kind: Any, place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a place with the name of a value that was given to a dataclass by its position."""
    if place and isinstance(place[0], int) and is_dataclass(kind):
        return (fields(kind)[place[0]].name, *place[1:])
    return place
