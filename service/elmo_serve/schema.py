"""The words of which the schemas of request bodies are made, and errors that name the bad value.

The defaults stand in the descriptions alone, see `http/schemas/__init__.py`.
"""

from collections.abc import Callable, Collection
from itertools import islice
from typing import Annotated, Any, Final, TypeVar, get_args

import orjson
from pydantic import BaseModel, Discriminator, Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError

from elmo_model.errors import SHOWN_CHARACTERS, counted, shown
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, pointer

MAX_NAME_CHARACTERS: Final = 256
"""Longest name of a model that is looked up."""

_MAX_FAULTS: Final = 20
"""Faults that one response lists."""

_MAX_MEMBERS: Final = 100
"""Members that one object of a body may have; the largest schema has 12. pydantic makes a fault of
each unknown name, which takes 3 us and 1 kB: 8 MB of them took 3 s and 1 GB."""

_MAX_COUNTED: Final = 1_000
"""Faults that are looked at: pydantic makes all of them, to show 20, in 3 ms. A body of a task can
have more of them, and one with NaN, which orjson does not read and pydantic does."""

_NAMES_SHOWN: Final = 5
"""Members that a message names of an object."""

_Body = TypeVar("_Body", bound=BaseModel)


def a_whole_number(value: JsonValue) -> JsonValue:
    """Return a whole number of a request; anything else is a fault of type `int_type`."""
    # JSON has one type of numbers: 1.0 is the whole number 1.
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise PydanticKnownError("int_type")
    return int(value)  # 1e300 as well, whose fault is then that it is too large


ALLOWED: Final = "allowed"
"""The type of a fault whose message says what is allowed; it follows the place in the body."""

NAME, NUMBER, LIST = "<name>", "<number>", "<list>"
TAGS: Final = {str: NAME, int: NUMBER, float: NUMBER, list: LIST}
"""The tags of the branches of a union by the type of their values. Places in a body leave them
out."""


def one_of(
    expected: str,
    names: Collection[str] | None = None,
    tag: Callable[[Any], str | None] = lambda value: TAGS.get(type(value)),
) -> Discriminator:
    """Let a union be read as the branch with the tag of the value, whose faults alone are listed.

    `expected` is what is allowed where no branch has that tag, or where a string is none of
    `names`. `tag` gives other tags than `TAGS`.
    """

    def found(value: Any) -> str | None:
        is_other = names is not None and isinstance(value, str) and value not in names
        return None if is_other else tag(value)

    return Discriminator(
        found, custom_error_type=ALLOWED, custom_error_message=f"must be {expected}"
    )


def without_default(schema: dict[str, Any]) -> None:
    """Take the default out of the schema of a field."""
    schema.pop("default", None)


def optional(default: Any, description: str, **rules: Any) -> Any:
    """Return a field that may be left out; its schema has no `default`."""
    return Field(default, description=description, json_schema_extra=without_default, **rules)


ModelName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]


def validated(model: type[_Body], body: bytes | memoryview, context: Any = None) -> _Body:
    """Return the JSON `body` as a `model`; `context` is for its validators.

    Raises:
        MalformedBody: it is not JSON.
        InvalidRequest: it breaks the schema; `errors` points to at most 20 faults.
    """
    try:
        return model.model_validate_json(bytes(body), context=context)
    except ValidationError as error:
        if error.error_count() > _MAX_COUNTED:
            raise InvalidRequest.of(FieldError("", f"has {error.error_count()} faults")) from None
        raise _refusal(model, error.errors(include_url=False)) from None


def prepared(body: bytes | memoryview) -> bytes:
    """Return a body without the members of its object that are null: they count as left out.

    The schemas name no null: with it, generated clients would call their types otherwise.

    Raises InvalidRequest for an object with too many members.
    """
    content = bytes(body)
    may_be_wide = content.count(b":") > _MAX_MEMBERS
    if not may_be_wide and b"null" not in content:  # most bodies are parsed once
        return content
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content  # pydantic names the fault
    if may_be_wide:
        _check_members(value)
    if not isinstance(value, dict) or None not in value.values():
        return content
    try:
        return orjson.dumps({name: each for name, each in value.items() if each is not None})
    except orjson.JSONEncodeError:  # lists in lists, deeper than orjson writes and pydantic reads
        return content


def _check_members(body: Any) -> None:
    """Raise InvalidRequest for an object, also inside of others, with too many members."""
    waiting: list[Any] = [[body]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if len(value) > _MAX_MEMBERS:
                detail = f"an object has {len(value)} members, expected {_MAX_MEMBERS} at most"
                raise InvalidRequest.of(FieldError("", detail))
            value = value.values()
        waiting += [each for each in value if isinstance(each, (dict, list))]


def _refusal(model: type[BaseModel], faults: list[ErrorDetails]) -> MalformedBody | InvalidRequest:
    if faults[0]["type"] == "json_invalid":
        return MalformedBody(f"The body is not JSON: {faults[0]['ctx']['error']}.")
    if faults[0]["type"] == "missing":  # an unknown field may be that one, misspelt
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")
    errors = [_field_error(model, fault) for fault in faults[:_MAX_FAULTS]]
    more = f" (the first {_MAX_FAULTS} are listed)" if len(faults) > _MAX_FAULTS else ""
    first = f"{errors[0].pointer or 'the body'}: {errors[0].detail}"
    return InvalidRequest(f"{first}{more}", errors=errors)


def _field_error(model: type[BaseModel], fault: ErrorDetails) -> FieldError:
    """Map a pydantic fault to its JSON pointer and a text with the value and the allowed ones."""
    is_unknown = fault["type"] == "extra_forbidden"
    # The tags of unions are no places in the body; the name of an unknown field is one.
    path = fault["loc"]
    named = path[-1:] if is_unknown else ()
    place = (
        *(part for part in path[: len(path) - len(named)] if part not in TAGS.values()),
        *named,
    )
    text = _expected(model, fault, place)
    is_string = fault["type"] == "list_type" and isinstance(fault["input"], str)
    if is_string and place[:1] == ("sentences",):
        text += "; use `text` for strings that are not split into tokens"
    if is_unknown and len(str(place[-1])) > SHOWN_CHARACTERS:
        # A pointer cannot be cut: it points to the object that has the long name.
        text, place = f"{shown(place[-1])} {text}", place[:-1]
    if fault["type"] not in ("missing", "too_short"):
        text += f"; found {spelled(fault['input'])}"
    return FieldError(pointer(*place), text)


def _expected(model: type[BaseModel], fault: ErrorDetails, place: tuple[int | str, ...]) -> str:
    """Return what is allowed at the place of a fault, mostly in the words of pydantic."""
    if fault["type"] == "extra_forbidden":
        known = list(_model_at(model, place[:-1]).model_fields)
        return f"is no field, expected {', '.join(known)}"
    if fault["type"] == ALLOWED:
        return fault["msg"]
    if fault["type"] == "model_type" and place:
        return f"should be an object with {', '.join(_model_at(model, place).model_fields)}"
    return fault["msg"].removeprefix("Input ")


def _model_at(model: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the object at a place of a body."""
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation names, such as that of a list's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = map(_model_in, get_args(annotation))
    return next((model for model in models if model is not None), None)


def spelled(value: Any) -> str:
    """Return a client's value as JSON spells it, shortened."""
    if isinstance(value, dict):
        names = ", ".join(map(shown, islice(value, _NAMES_SHOWN)))
        return f"an object with {names}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {counted(len(value), 'item')}" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return orjson.dumps(value).decode()
    return shown(value)
