"""The parts that schemas of request bodies share, and the faults of a body."""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Discriminator, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError

from elmo_model.errors import SHOWN_CHARACTERS, shown
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, pointer

MAX_NAME_CHARACTERS: Final = 256
"""Longest name of a model that is looked up."""

_MAX_FAULTS: Final = 20
"""Faults that one response lists."""

MAX_MEMBERS: Final = 100
"""Members that one object of a body may have; the largest schema has 12. pydantic makes a fault of
each unknown name, which takes 3 us and 1 kB: 8 MB of them took 3 s and 1 GB."""

_MAX_COUNTED: Final = 1_000
"""Faults that are looked at: pydantic makes all of them, to show 20, in 3 ms. A body of a task can
have more of them, and one with NaN, which orjson does not read and pydantic does."""

_Body = TypeVar("_Body", bound=BaseModel)

ModelName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]

FAULT: Final = "fault"
"""The type of a fault with a message of our own."""

NAME, NUMBER, LIST = "<name>", "<number>", "<list>"
_TAGS: Final = {str: NAME, int: NUMBER, float: NUMBER, list: LIST}
"""The tags of the branches of a union by the type of their values."""


def a_whole_number(value: JsonValue) -> JsonValue:
    """Return a whole number of a request; anything else is a fault of type `int_type`."""
    # JSON has one type of numbers: 1.0 is the whole number 1.
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise PydanticKnownError("int_type")
    return int(value)  # 1e300 as well, whose fault is then that it is too large


def one_of(
    expected: str, tag: Callable[[Any], str | None] = lambda value: _TAGS.get(type(value))
) -> Discriminator:
    """Let a union be read as the branch with the tag of the value, whose faults alone are listed.

    `expected` is what is allowed where no branch has that tag. `tag` gives other tags than those of
    the types.
    """
    message = f"should be {expected}"
    return Discriminator(tag, custom_error_type=FAULT, custom_error_message=message)


def among(*names: str) -> Callable[[Any], str | None]:
    """Return the tags of the types, where a string has one only if it is one of these names."""
    return lambda value: (
        None if isinstance(value, str) and value not in names else _TAGS.get(type(value))
    )


def optional(default: Any, description: str, **rules: Any) -> Any:
    """Return a field that may be left out."""
    return Field(default, description=description, **rules)


def validated(model: type[_Body], body: bytes | dict[str, Any]) -> _Body:
    """Return a JSON `body`, or an object of one that was parsed, as a `model`.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to at most 20 faults.
    """
    try:
        if isinstance(body, bytes):
            return model.model_validate_json(body)
        return model.model_validate(body)
    except ValidationError as error:
        if error.error_count() > _MAX_COUNTED:
            raise InvalidRequest.of(FieldError("", f"has {error.error_count()} faults")) from None
        raise refusal(error.errors(include_url=False, include_input=False)) from None


def refuse_wide(body: dict[str, Any]) -> None:
    """Raise InvalidRequest for a body with too many members, also of an object in one of them.

    Schemas have no objects in objects in objects: in other places an object is one fault.
    """
    for value in (body, *body.values()):
        if isinstance(value, dict) and len(value) > MAX_MEMBERS:
            detail = f"an object has {len(value)} members, expected {MAX_MEMBERS} at most"
            raise InvalidRequest.of(FieldError("", detail))


def refusal(faults: list[ErrorDetails]) -> MalformedBody | InvalidRequest:
    """Return the error for pydantic's faults of a body or a query; it lists 20 of them."""
    if faults[0]["type"] == "json_invalid":
        return MalformedBody(f"The body is not JSON: {faults[0]['ctx']['error']}.")
    if faults[0]["type"] == "missing":  # an unknown field may be that one, misspelt
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
    errors = [_field_error(fault) for fault in faults[:_MAX_FAULTS]]
    more = f" (the first {_MAX_FAULTS} are listed)" if len(faults) > _MAX_FAULTS else ""
    first = f"{errors[0].pointer or 'the body'}: {errors[0].detail}"
    return InvalidRequest(f"{first}{more}", errors=errors)


def _field_error(fault: ErrorDetails) -> FieldError:
    """Map a pydantic fault to its JSON pointer and pydantic's message."""
    text, path = fault["msg"].removeprefix("Input "), fault["loc"]
    is_unknown = fault["type"] == "extra_forbidden"
    # The tags of unions are no places in the body; the name of an unknown field is one.
    named = path[-1:] if is_unknown else ()
    place = [part for part in path[: len(path) - len(named)] if part not in _TAGS.values()]
    if fault["type"] == "model_type":  # of an object that was parsed, the message names a class
        text = "should be an object"
    if fault["type"] == "list_type" and place[:1] == ["sentences"]:
        text += "; use `text` for strings that are not split into tokens"
    if is_unknown and len(str(named[0])) > SHOWN_CHARACTERS:
        # A pointer cannot be cut: it points to the object that has the long name.
        text, named = f"{text}: {shown(named[0])}", ()
    return FieldError(pointer(*place, *named), text)
