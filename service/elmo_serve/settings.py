"""Everything that can be set, as one frozen object made at the door.

`python -m elmo_serve.settings` prints the table of docs/settings.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from elmo_serve import api_keys as key_file
from elmo_serve.api_keys import KeyFile
from elmo_serve.output import BOUNDARIES

PREFIX = "ELMO_"

BATCH_TOKENS_CPU: Final = 1_024
BATCH_TOKENS_CUDA: Final = 16_384

_DAY: Final = 86_400


class Settings(BaseModel):
    """What `elmo serve` runs with. Sizes in tokens count the two boundaries of each sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        "english",
        min_length=1,
        description="The model: a built-in name, the name of a published one, or the path of a "
        "checkpoint.",
        json_schema_extra={"allowed": "a name or a path"},
    )
    cache: Path | None = Field(
        None,
        description="Folder of the published models, made when it is missing; unset: elmo-serve "
        "in the user's cache folder.",
        json_schema_extra={"allowed": "the path of a folder"},
    )
    mirror: str | None = Field(
        None,
        pattern=r"^https?://[!-+\--~]+$",
        description="Address that published models are fetched from, in place of their own.",
        json_schema_extra={"allowed": "an address that starts with http:// or https://"},
    )
    offline: bool = Field(
        False,
        description="Whether published models may only be taken from the cache folder.",
        json_schema_extra={"allowed": "true or false"},
    )
    devices: tuple[str, ...] | Literal["auto"] = Field(
        "auto",
        description="Where the model runs; auto: every CUDA device, or the CPU if there is none.",
        json_schema_extra={"allowed": "auto, or distinct devices with commas: cpu, cuda:0, cuda:1"},
    )
    workers_per_device: int = Field(
        1, ge=1, le=64, description="Workers on each device, each with its own copy of the model."
    )
    worker: Literal["process", "thread"] = Field(
        "process",
        description="What a worker is; a thread is for tests and debugging.",
    )
    precision: Literal["float32", "bfloat16", "float16", "int8"] = Field(
        "float32",
        description="Number format of the large products; the vectors are float32 all the same. "
        "int8: on a CPU with VNNI.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on; 0.0.0.0 for every interface, which the image sets.",
        json_schema_extra={"allowed": "an address or a host name"},
    )
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 for any free one.")
    tasks: Path | None = Field(
        None,
        description="Folder of the task files, made when it is missing; unset: elmo-serve/tasks in "
        "the user's data folder.",
        json_schema_extra={"allowed": "the path of a folder"},
    )
    max_sentence_tokens: int = Field(
        1_000, ge=1, le=100_000, description="Longest sentence, in tokens without its boundaries."
    )
    max_batch_tokens: int | None = Field(
        None,
        ge=1 + BOUNDARIES,
        le=10_000_000,
        description="Largest batch, in padded tokens; unset: 1,024 on a CPU, 16,384 on CUDA, "
        "and never less than the longest sentence.",
    )
    max_queue_tokens: int = Field(
        262_144,
        ge=1 + BOUNDARIES,
        le=1_000_000_000,
        description="Tokens that may wait or run at once, over all requests; more is answered 503.",
    )
    max_client_tokens: int | None = Field(
        None,
        ge=1 + BOUNDARIES,
        le=1_000_000_000,
        description="Tokens of one client that may wait or run at once, a client being an API key, "
        "or an address where none is asked for; more is answered 429. Unset: no bound but that of "
        "the queue.",
    )
    max_request_sentences: int = Field(10_000, ge=1, description="Sentences of one request.")
    max_body_bytes: int = Field(8 * 1024**2, ge=1, description="Size of one request body in bytes.")
    max_answer_bytes: int = Field(
        1024**3,
        ge=1,
        description="Bytes of answers admitted and not yet sent, over all requests; one request "
        "above it is answered 413.",
    )
    request_timeout_seconds: float = Field(
        60.0,
        gt=0,
        le=_DAY,
        allow_inf_nan=False,
        description="Longest time for a request in seconds, which X-Request-Timeout can shorten.",
    )
    client_timeout_seconds: float = Field(
        30.0,
        gt=0,
        le=_DAY,
        allow_inf_nan=False,
        description="Longest time in seconds that a client may take to send the head of a request, "
        "or read nothing of an answer.",
    )
    drain_timeout_seconds: float = Field(
        30.0,
        ge=0,
        le=_DAY,
        allow_inf_nan=False,
        description="Time in seconds to finish admitted requests after SIGTERM.",
    )
    token_cache_size: int = Field(
        65_536,
        ge=0,
        le=100_000_000,
        description="Distinct words whose token vectors each worker keeps.",
    )
    gate_cache_bytes: int = Field(
        256 * 1024**2,
        ge=0,
        description="Memory in bytes in which each worker on a CPU keeps what the first layer "
        "makes of frequent words.",
    )
    json_workers: int | None = Field(
        None, ge=1, le=256, description="Processes that write JSON answers; unset: by the cores."
    )
    max_connections: int = Field(
        1_024, ge=1, le=1_000_000, description="Open connections; more are answered 503."
    )
    api_keys: tuple[SecretStr, ...] = Field(
        (),
        description="Keys, one of which every request must carry; unset: no key is asked for.",
        json_schema_extra={"allowed": "keys with commas, each of printable ASCII without spaces"},
    )
    api_keys_file: KeyFile | None = Field(
        None,
        description="File of more keys, read at the start: one a line, # begins a comment.",
        json_schema_extra={"allowed": "the path of a file with a key a line"},
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="Form of the log: lines for people, or one JSON object a line."
    )

    def batch_tokens(self, device: str) -> int:
        """Return the largest batch of `device` in padded tokens; a longest sentence always fits."""
        if self.max_batch_tokens is not None:
            return self.max_batch_tokens
        usual = BATCH_TOKENS_CUDA if device.startswith("cuda") else BATCH_TOKENS_CPU
        return max(usual, self.max_sentence_tokens + BOUNDARIES)

    def every_api_key(self) -> tuple[str, ...]:
        """Return the keys as they are sent, those of the file among them; none: none is needed."""
        kept = [*self.api_keys, *(self.api_keys_file.keys if self.api_keys_file else ())]
        return tuple(dict.fromkeys(key.get_secret_value() for key in kept))

    @field_validator("devices", mode="before")
    @classmethod
    def _parse_devices(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value.strip().lower() == "auto":
                return "auto"
            value = tuple(part.strip().lower() for part in value.split(","))
        if not isinstance(value, tuple | list):
            return value
        if not value or not all(_DEVICE.fullmatch(str(part)) for part in value):
            raise ValueError("not a list of devices")
        if len(set(value)) != len(value):
            raise ValueError("a device is named twice; ELMO_WORKERS_PER_DEVICE adds workers")
        return tuple(value)

    @field_validator("api_keys", mode="before")
    @classmethod
    def _parse_api_keys(cls, value: Any) -> Any:
        keys = value.split(",") if isinstance(value, str) else value
        plain = [
            key.get_secret_value() if isinstance(key, SecretStr) else str(key).strip()
            for key in keys
        ]
        # Only what a header can carry: any other key could never be sent.
        if not all(key_file.KEY.fullmatch(key) for key in plain):
            raise ValueError("a key is empty or holds other characters")
        return tuple(dict.fromkeys(plain))

    @field_validator("api_keys_file", mode="before")
    @classmethod
    def _read_api_keys(cls, value: Any) -> Any:
        return key_file.read(Path(value)) if isinstance(value, str | Path) else value

    @field_validator("log_level", "log_format", "worker", "precision", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("max_batch_tokens", "max_queue_tokens", "max_client_tokens")
    @classmethod
    def _fits_longest_sentence(cls, value: int | None, info: ValidationInfo) -> int | None:
        longest = info.data.get("max_sentence_tokens")
        if value is not None and longest is not None and value < longest + BOUNDARIES:
            raise ValueError(
                f"at least {longest + BOUNDARIES}, for a sentence of "
                f"{variable('max_sentence_tokens')}={longest} and its boundaries"
            )
        return value


class SettingsError(ValueError):
    """A setting is wrong. Its text is one line: the variable, its value and what is allowed."""


def from_strings(
    values: Mapping[str, str | None], spoken: Mapping[str, str] | None = None
) -> Settings:
    """Make settings of texts by field name; None and "" mean the default.

    `spoken` says what the user called a field (`--port`); it is `ELMO_PORT` otherwise.
    Raises SettingsError for the first value that is wrong; no secret is shown in it.
    """
    spoken = spoken or {}
    # "" is how compose files and shells say "not set": `ELMO_TASKS: ${ELMO_TASKS:-}`.
    given = {name: text for name, text in values.items() if text is not None and text.strip()}
    for name in given:
        if name not in Settings.model_fields:
            raise SettingsError(
                f"{name!r} is no setting; there are {', '.join(Settings.model_fields)}"
            )
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=True)[0]
        name = str(first["loc"][0])
        raise SettingsError(
            _refusal(name, spoken.get(name, variable(name)), given[name], first)
        ) from None


def variable(name: str) -> str:
    """Return the environment variable of a field."""
    return PREFIX + name.upper()


def option(name: str) -> str:
    """Return the command line option of a field."""
    return "--" + name.replace("_", "-")


def default(name: str) -> str | None:
    """Return a field's default as it would be written in the environment; None when unset."""
    value = Settings.model_fields[name].default
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or value == () else str(value)


def allowed(name: str) -> str:
    """Say in a few words what a field may hold."""
    field = Settings.model_fields[name]
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["allowed"])
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    kind = "a number" if field.annotation is float else "an integer"
    return f"{kind} {_bounds(field)}"


def table() -> str:
    """Return all settings as a Markdown table: the one in docs/settings.md."""
    lines = [
        "| variable | option | default | allowed | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        value = default(name)
        lines.append(
            f"| `{variable(name)}` | `{option(name)}` | {'' if value is None else f'`{value}`'} "
            f"| {allowed(name)} | {field.description} |"
        )
    return "\n".join(lines) + "\n"


_DEVICE = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,2})")
_SECRET: Final = frozenset({"api_keys"})
_SHOWN_CHARACTERS: Final = 80


def _refusal(name: str, called: str, text: str, fault: Mapping[str, Any]) -> str:
    """Return the one line: `ELMO_PORT='x' is not allowed: an integer from 0 to 65535`."""
    wanted = allowed(name)
    if fault["type"] == "value_error":
        wanted = f"{fault['ctx']['error']}; allowed: {wanted}"
    if name in _SECRET:
        return f"{called} (its value is not shown) is not allowed: {wanted}"
    if name == "port" and text.startswith("tcp://"):
        wanted += " (Kubernetes sets this for a Service called elmo: set enableServiceLinks: false)"
    return f"{called}={_short(text)} is not allowed: {wanted}"


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


def _short(text: str) -> str:
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return repr(cut)


if __name__ == "__main__":
    print(table(), end="")
