"""The settings of `elmo serve`: one frozen object, made once at the start."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FilePath,
    SecretStr,
    ValidationInfo,
    WrapValidator,
    field_validator,
)

from elmo_model.errors import OptionError
from elmo_model.inference.precision import PRECISIONS, Precision
from elmo_model.text.by_length import BOUNDARIES
from elmo_serve.settings.values import (
    KeyFile,
    ModelSource,
    is_loopback,
    listed,
    lower,
    parse,
    parse_devices,
    parse_keys,
    parse_origins,
    precisions,
    read_keys,
    source_of,
    within_the_system,
)

PREFIX = "ELMO_"

BATCH_TOKENS_CPU: Final = 1_024
BATCH_TOKENS_CUDA: Final = 16_384
"""Default size of a batch in padded tokens. A larger batch raises throughput, and the time that a
small request waits for the batch that runs."""

_BODIES: Final = 16
"""Large bodies of the largest size that are in memory at once. A larger number takes more memory, a
smaller one refuses large bodies sooner."""

_DAY: Final = 86_400  # seconds
_OPTIONS: Final = {"devices": "--device"}  # as the other commands call it

_File = Annotated[
    FilePath | None,
    WrapValidator(within_the_system),
    Field(json_schema_extra={"allowed": "the path of a file"}),
]
_Folder = Annotated[Path | None, Field(json_schema_extra={"allowed": "the path of a folder"})]
_Seconds = Annotated[float, Field(gt=0, le=_DAY, allow_inf_nan=False)]


class Settings(BaseModel):
    """Checked settings. Batch and queue sizes count the two boundary tokens of each sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        "english",
        min_length=1,
        description="Model to serve.",
        json_schema_extra={"allowed": "a built-in or published name, or a path"},
    )
    models: Annotated[tuple[ModelSource, ...], BeforeValidator(parse)] = Field(
        (),
        description="Several models, in place of ELMO_MODEL; the first is the default.",
        json_schema_extra={"allowed": "names and paths with commas: english,original,pt=path"},
    )
    cache: _Folder = Field(
        None,
        description="Published models; unset: elmo-serve in the user's cache folder.",
    )
    mirror: str | None = Field(
        None,
        pattern=r"^https?://[!-+\--~]+$",
        description="Source of published models, in place of their own.",
        json_schema_extra={"allowed": "an http:// or https:// address"},
    )
    offline: bool = Field(
        False,
        description="Take published models from the cache folder alone.",
        json_schema_extra={"allowed": "true or false"},
    )
    softmax: _File = Field(
        None,
        description="Softmax of the first model, where it does not lie with the model.",
    )
    softmax_words: int | None = Field(
        None,
        ge=3,
        description="Most frequent words of a softmax that are used; unset: all.",
    )
    index: Annotated[tuple[Path, ...], BeforeValidator(listed)] = Field(
        (),
        description="Indexes of `elmo index`, one for each model; unset: a text that comes with "
        "the program.",
        json_schema_extra={"allowed": "paths of folders with commas"},
    )
    devices: Annotated[tuple[str, ...] | Literal["auto"], BeforeValidator(parse_devices)] = Field(
        "auto",
        description="Where models run; auto: every CUDA device, else the CPU.",
        json_schema_extra={"allowed": "auto, or distinct devices with commas: cpu, cuda, cuda:1"},
    )
    workers_per_device: int = Field(
        1, ge=1, le=64, description="Workers on each device, each with a copy of the model."
    )
    precision: Annotated[str, BeforeValidator(lower)] = Field(
        "float32",
        description="Number format of the large products; int8: on a CPU with VNNI. NAME=FORMAT "
        "is for one model.",
        json_schema_extra={
            "allowed": f"one of {', '.join(PRECISIONS)}; with commas also NAME=FORMAT"
        },
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Where it listens; every interface: 0.0.0.0, or :: for IPv6 as well.",
        json_schema_extra={"allowed": "an address or a host name"},
    )
    published_address: str | None = Field(
        None,
        min_length=1,
        description="Where the port of a container is published; Compose sets it.",
        json_schema_extra={"allowed": "an address"},
    )
    port: int = Field(8000, ge=0, le=65_535, description="Port; 0: any free one.")
    tasks: _Folder = Field(
        None,
        description="Task files; unset: no tasks.",
    )
    max_sentence_tokens: int = Field(
        35_000, ge=1, le=100_000, description="Longest sentence, in tokens without its boundaries."
    )
    max_batch_tokens: int | None = Field(
        None,
        ge=1 + BOUNDARIES,
        le=10_000_000,
        description="Largest batch, in padded tokens; unset: 1,024 on a CPU, 16,384 on CUDA.",
    )
    max_queue_tokens: int = Field(
        262_144,
        ge=1 + BOUNDARIES,
        le=1_000_000_000,
        description="Tokens of interactive requests that wait or run; as many again of requests "
        "larger than a batch.",
    )
    max_request_sentences: int = Field(10_000, ge=1, description="Sentences of one request.")
    max_body_bytes: int = Field(8 * 1024**2, ge=1, description="Size of a request body.")
    max_answer_bytes: int = Field(
        1024**3,
        ge=1,
        description="Responses admitted and not yet sent, of all requests.",
    )
    request_timeout_seconds: _Seconds = Field(
        60.0,
        description="Time for a request, which X-Request-Timeout can shorten.",
    )
    client_timeout_seconds: _Seconds = Field(
        30.0,
        description="Time for the head of a request.",
    )
    keep_alive_seconds: int = Field(
        75,
        ge=1,
        le=_DAY,
        description="Time for which an idle connection is kept; longer than in the proxy in front.",
    )
    drain_timeout_seconds: float = Field(
        30.0,
        ge=0,
        le=_DAY,
        allow_inf_nan=False,
        description="Time to finish admitted requests after SIGTERM.",
    )
    max_connections: int = Field(
        1_024,
        ge=1,
        le=1_000_000,
        description="Open connections; more are answered 503, except probes and metrics.",
    )
    api_keys: Annotated[tuple[SecretStr, ...], BeforeValidator(parse_keys)] = Field(
        (),
        description="Keys; every request carries one. Unset: no key is required.",
        json_schema_extra={"allowed": "keys with commas, each of printable ASCII without spaces"},
    )
    api_keys_file: Annotated[KeyFile | None, BeforeValidator(read_keys)] = Field(
        None,
        description="More keys. A changed file is read again.",
        json_schema_extra={"allowed": "the path of a file with a key a line"},
    )
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(parse_origins)] = Field(
        (),
        description="Origins whose pages may call the server; unset: its own alone.",
        json_schema_extra={"allowed": "* or origins with commas: https://example.org"},
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower)] = (
        Field("info", description="Least severe level that is logged.")
    )
    log_format: Annotated[Literal["text", "json"], BeforeValidator(lower)] = Field(
        "text",
        description="Lines for people, or one JSON object a line.",
    )

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """The models to serve; the first is the default of a request."""
        return self.models or (source_of(self.model),)

    def precision_of(self, name: str) -> Precision:
        """Return the precision of the model with this name."""
        common, own = precisions(self.precision)
        return own.get(name.casefold(), common)

    def batch_tokens(self, device: str) -> int:
        """Return the largest batch of `device` in padded tokens; a longer sentence is its own."""
        if self.max_batch_tokens is not None:
            return self.max_batch_tokens
        return BATCH_TOKENS_CUDA if device.startswith("cuda") else BATCH_TOKENS_CPU

    @property
    def is_local(self) -> bool:
        """Whether this machine alone can reach the server, by the addresses in the settings."""
        return any(map(is_loopback, (self.host, self.published_address or "")))

    @property
    def body_budget_bytes(self) -> int:
        """Bytes of request bodies over 32 KiB that may be in memory at once."""
        return _BODIES * self.max_body_bytes

    def api_key_names(self) -> dict[str, str]:
        """Return all API keys in plain text, and the name of each: that of the file, or its number.

        No key: none is required.
        """
        names = {key.get_secret_value(): "" for key in self.api_keys}
        names |= self.api_keys_file.names if self.api_keys_file else {}
        return {key: name or str(number) for number, (key, name) in enumerate(names.items(), 1)}

    @field_validator("precision")
    @classmethod
    def _check_precision(cls, value: str, info: ValidationInfo) -> str:
        _, own = precisions(value)
        sources = info.data.get("models") or (source_of(info.data.get("model", "")),)
        names = {source.name.casefold() for source in sources}
        if unknown := [name for name in own if name not in names]:
            raise ValueError(f"no model is called {unknown[0]}")
        return value


class SettingsError(OptionError):
    """Settings are wrong. The message has a line for each: variable, value and what is allowed."""


def variable(name: str) -> str:
    """Return the environment variable of a field."""
    return PREFIX + name.upper()


def option(name: str) -> str:
    """Return the command line option of a field."""
    return _OPTIONS.get(name, "--" + name.replace("_", "-"))
