"""The words of which the schemas of request bodies are made.

The defaults stand in the descriptions alone, see `http/schemas/__init__.py`.
"""

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final

from pydantic import Discriminator, Field, JsonValue
from pydantic_core import PydanticKnownError

MAX_NAME_CHARACTERS: Final = 256
"""Longest name of a model that is looked up."""


def a_number(value: JsonValue) -> JsonValue:
    """Return a number of a request; anything else is a fault of type `float_type`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticKnownError("float_type")
    return value


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
