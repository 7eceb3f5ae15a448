"""Settings as text: from strings, refusals for the user, and the table of docs/settings.md.

`python -m elmo_serve.settings.text` prints the table. pydantic-settings is not used: click already
reads the environment, lets an option win and shows both in the help, and the refusals below, which
call a setting by the name that the user gave it, would be as long.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from elmo_model.errors import shown
from elmo_serve.settings import Settings, SettingsError, variable

_SECRET: Final = frozenset({"api_keys"})


def from_strings(
    values: Mapping[str, str | None], called: Mapping[str, str] | None = None
) -> Settings:
    """Make settings of strings by field name; None and "" mean the default.

    `called` has the name by which the user gave a field (`--port`); by default it is `ELMO_PORT`.
    Raises SettingsError with a refusal for each wrong value. No secret is shown in it.
    """
    called = called or {}
    # Compose files and shells write "not set" as "": `ELMO_TASKS: ${ELMO_TASKS:-}`.
    given = {name: text.strip() for name, text in values.items() if text and text.strip()}
    known = {name: text for name, text in given.items() if name in Settings.model_fields}
    if "model" in given and "models" in given:
        names = " and ".join(called.get(name, variable(name)) for name in ("model", "models"))
        raise SettingsError(f"{names} are both set: set one of them")
    refusals = {
        name: f"{name!r} is no setting; there are {', '.join(Settings.model_fields)}"
        for name in given
        if name not in known
    }
    try:
        settings = Settings.model_validate(known)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=True):
            name = str(fault["loc"][0])
            refusal = _refusal(name, called.get(name, variable(name)), given[name], fault)
            refusals.setdefault(name, refusal)
    if refusals:
        raise SettingsError("\n".join(refusals.values()))
    return settings


def default(name: str) -> str | None:
    """Return the default of a field as one would write it in the environment; None for no value."""
    value = Settings.model_fields[name].default
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == () else str(value)


def allowed(name: str) -> str:
    """Return a phrase for the values that a field may have."""
    field = Settings.model_fields[name]
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["allowed"])
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    kind = "a number" if field.annotation is float else "an integer"
    return f"{kind} {_bounds(field)}"


def table() -> str:
    """Return the Markdown table of docs/settings.md; integers are stated by their bounds alone."""
    lines = [
        "| variable | default | allowed | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        value = default(name)
        lines.append(
            f"| `{variable(name)}` | {'' if value is None else f'`{value}`'} "
            f"| {allowed(name).removeprefix('an integer ').removeprefix('of ')} "
            f"| {field.description} |"
        )
    return "\n".join(lines) + "\n"


def _refusal(name: str, called: str, text: str, fault: Mapping[str, Any]) -> str:
    """Return one line such as `ELMO_X='a' is not allowed; allowed: an integer of at least 1`."""
    why = f": {fault['ctx']['error']}" if fault["type"] == "value_error" else ""
    wanted = f"is not allowed{why}; allowed: {allowed(name)}"
    if name in _SECRET:
        return f"{called} (its value is not shown) {wanted}"
    if name == "port" and text.startswith("tcp://"):
        wanted += " (Kubernetes sets this for a Service called elmo: set enableServiceLinks: false)"
    return f"{called}={shown(text)} {wanted}"


def _bounds(field: FieldInfo) -> str:
    limits = {
        key: value
        for rule in field.metadata
        for key in ("ge", "gt", "le")
        if (value := getattr(rule, key, None)) is not None
    }
    if "le" not in limits:
        return f"of at least {limits['ge']:,}"
    low = f"above {limits['gt']:,}, up to" if "gt" in limits else f"from {limits['ge']:,} to"
    return f"{low} {limits['le']:,}"


if __name__ == "__main__":
    print(table(), end="")
