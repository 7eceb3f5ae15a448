"""The settings of `elmo serve`: one frozen object, made once at the start."""

import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FilePath,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from elmo_model.errors import OptionError
from elmo_model.inference.precision import PRECISIONS, Precision, precision_of
from elmo_model.text.batches import BOUNDARIES
from elmo_serve.settings import api_keys as key_file
from elmo_serve.settings import model_specs
from elmo_serve.settings.api_keys import KeyFile
from elmo_serve.settings.model_specs import ModelSpec

PREFIX = "ELMO_"

BATCH_TOKENS_CPU: Final = 1_024
BATCH_TOKENS_CUDA: Final = 16_384
"""Default size of a batch in padded tokens. A larger batch raises throughput, and the time that a
small request waits for the batch that runs."""

_BODIES: Final = 16
"""Large bodies of the largest size that are in memory at once. A larger number takes more memory, a
smaller one refuses large bodies sooner."""

_DAY: Final = 86_400  # seconds
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:_\[\]-]+")
_DEVICE: Final = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,2})")
_OPTIONS: Final = {"devices": "--device"}  # as the other commands call it


_File = Annotated[Path | None, Field(json_schema_extra={"allowed": "the path of a file"})]
_ExistingFile = Annotated[
    FilePath | None, Field(json_schema_extra={"allowed": "the path of a file"})
]
_Folder = Annotated[Path | None, Field(json_schema_extra={"allowed": "the path of a folder"})]
_Seconds = Annotated[float, Field(gt=0, le=_DAY, allow_inf_nan=False)]


class Settings(BaseModel):
    """Checked settings. Batch and queue sizes count the two boundary tokens of each sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        "english",
        min_length=1,
        description="The model: a built-in or published name, or the path of a checkpoint.",
        json_schema_extra={"allowed": "a name or a path"},
    )
    models: tuple[ModelSpec, ...] = Field(
        (),
        description="Models to serve from one process tree, in place of ELMO_MODEL: the first is "
        "the default of a request. NAME=PATH gives a model another name.",
        json_schema_extra={"allowed": "names and paths with commas: english,original,pt=path"},
    )
    cache: _Folder = Field(
        None,
        description="Folder of the published models, made when it is missing; unset: elmo-serve "
        "in the user's cache folder.",
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
    word_vectors: _File = Field(
        None,
        description="File of static word vectors that requests can append, which "
        "`elmo word-vectors` makes of GloVe or word2vec.",
    )
    softmax: _ExistingFile = Field(
        None,
        description="File of the softmax of the first model, where it does not lie with the model: "
        "softmax.safetensors, or HDF5 with its vocabulary in the same folder.",
    )
    softmax_words: int | None = Field(
        None,
        ge=3,
        description="Words of a softmax that are used, the first and most frequent ones; unset: "
        "all of them.",
    )
    index: tuple[Path, ...] = Field(
        (),
        description="Folder that `elmo index` has written, in whose text POST /neighbours looks "
        "for uses; for several models one for each. Unset: a text that comes with the program.",
        json_schema_extra={"allowed": "paths of folders with commas"},
    )
    devices: tuple[str, ...] | Literal["auto"] = Field(
        "auto",
        description="Where the model runs; auto: every CUDA device, or the CPU if there is none.",
        json_schema_extra={"allowed": "auto, or distinct devices with commas: cpu, cuda, cuda:1"},
    )
    workers_per_device: int = Field(
        1, ge=1, le=64, description="Workers on each device, each with its own copy of the model."
    )
    precision: str = Field(
        "float32",
        description="Number format of the large products; the vectors are float32 all the same. "
        "int8: on a CPU. NAME=FORMAT sets it for one of several models.",
        json_schema_extra={
            "allowed": f"one of {', '.join(PRECISIONS)}; with commas also NAME=FORMAT"
        },
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on; for every interface 0.0.0.0, which the image sets, or "
        ":: for IPv6 as well.",
        json_schema_extra={"allowed": "an address or a host name"},
    )
    published_address: str | None = Field(
        None,
        min_length=1,
        description="Address that the port of a container is published on, which Compose sets. On "
        "a loopback address a server without keys refuses names of other hosts in `Host`.",
        json_schema_extra={"allowed": "an address"},
    )
    port: int = Field(8000, ge=0, le=65_535, description="Port to listen on; 0 for any free one.")
    tasks: _Folder = Field(
        None,
        description="Folder of the task files, made when it is missing; unset: elmo-serve/tasks in "
        "the user's data folder.",
    )
    max_sentence_tokens: int = Field(
        35_000, ge=1, le=100_000, description="Longest sentence, in tokens without its boundaries."
    )
    max_batch_tokens: int | None = Field(
        None,
        ge=1 + BOUNDARIES,
        le=10_000_000,
        description="Largest batch, in padded tokens; unset: 1,024 on a CPU, 16,384 on CUDA. A "
        "longer sentence is a batch by itself.",
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
        description="Tokens of one client (an API key, or an address if the server has no keys) "
        "that may wait or run at once; more is answered 429. Unset: the bound of the queue.",
    )
    max_request_sentences: int = Field(10_000, ge=1, description="Sentences of one request.")
    max_body_bytes: int = Field(8 * 1024**2, ge=1, description="Size of one request body in bytes.")
    max_answer_bytes: int = Field(
        1024**3,
        ge=1,
        description="Bytes of responses admitted and not yet sent, over all requests; at most half "
        "of one client counts against others. More is answered 503 or 429, a single response "
        "above it 413.",
    )
    request_timeout_seconds: _Seconds = Field(
        60.0,
        description="Longest time for a request in seconds, which X-Request-Timeout can shorten.",
    )
    client_timeout_seconds: _Seconds = Field(
        30.0,
        description="Longest time in seconds for a client to send the head of a request, and to "
        "read a response, which has another second for each 64 KiB.",
    )
    keep_alive_seconds: int = Field(
        75,
        ge=1,
        le=_DAY,
        description="Time in seconds for which an idle connection is kept; longer than the proxy "
        "in front keeps it.",
    )
    drain_timeout_seconds: float = Field(
        30.0,
        ge=0,
        le=_DAY,
        allow_inf_nan=False,
        description="Time in seconds to finish admitted requests after SIGTERM.",
    )
    max_connections: int = Field(
        1_024,
        ge=1,
        le=1_000_000,
        description="Open connections; more are answered 503, except probes and metrics.",
    )
    api_keys: tuple[SecretStr, ...] = Field(
        (),
        description="Keys, one of which every request must carry; unset: no key is required.",
        json_schema_extra={"allowed": "keys with commas, each of printable ASCII without spaces"},
    )
    api_keys_file: KeyFile | None = Field(
        None,
        description="File of more keys, one a line. A changed file is read again.",
        json_schema_extra={"allowed": "the path of a file with a key a line"},
    )
    cors_origins: tuple[str, ...] = Field(
        (),
        description="Origins whose pages may call the server from a browser; unset: none but its "
        "own.",
        json_schema_extra={"allowed": "* or origins with commas: https://example.org"},
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged."
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="Form of the log: lines for people, or one JSON object a line.",
    )

    @property
    def specs(self) -> tuple[ModelSpec, ...]:
        """The models to serve; the first is the default of a request."""
        return self.models or (model_specs.spec_of(self.model),)

    def precision_of(self, name: str) -> Precision:
        """Return the precision of the model with this name."""
        common, own = _precisions(self.precision)
        return own.get(name.casefold(), common)

    def batch_tokens(self, device: str) -> int:
        """Return the largest batch of `device` in padded tokens; a longer sentence is its own."""
        if self.max_batch_tokens is not None:
            return self.max_batch_tokens
        return BATCH_TOKENS_CUDA if device.startswith("cuda") else BATCH_TOKENS_CPU

    @property
    def is_local(self) -> bool:
        """Whether this machine alone can reach the server, by the addresses in the settings."""
        return any(map(_is_loopback, (self.host, self.published_address or "")))

    @property
    def body_budget_bytes(self) -> int:
        """Bytes of request bodies over 32 KiB that may be in memory at once."""
        return _BODIES * self.max_body_bytes

    def every_api_key(self) -> tuple[str, ...]:
        """Return all API keys in plain text, also those of the file. No key: none is required."""
        keys = [*self.api_keys, *(self.api_keys_file.keys if self.api_keys_file else ())]
        return tuple(dict.fromkeys(key.get_secret_value() for key in keys))

    def api_key_names(self) -> dict[str, str]:
        """Return the name of each key: that of the file, else its number in all keys."""
        names = self.api_keys_file.names if self.api_keys_file else {}
        keys = self.every_api_key()
        return {key: names.get(key, str(number)) for number, key in enumerate(keys, start=1)}

    @field_validator("models", mode="before")
    @classmethod
    def _parse_models(cls, value: Any) -> Any:
        return model_specs.parse(value) if isinstance(value, str) else value

    @field_validator("index", mode="before")
    @classmethod
    def _parse_index(cls, value: Any) -> Any:
        parts = _listed(value)
        if not all(parts):
            raise ValueError("an entry is empty")
        return parts

    @field_validator("word_vectors", "softmax", mode="before")
    @classmethod
    def _check_file(cls, value: Any) -> Any:
        try:
            if value is not None:
                Path(value).stat()
        except OSError as error:
            raise ValueError(error.strerror) from None
        return value

    @field_validator("precision")
    @classmethod
    def _check_precision(cls, value: str, info: ValidationInfo) -> str:
        _, own = _precisions(value)
        specs = info.data.get("models") or (model_specs.spec_of(info.data.get("model", "")),)
        names = {spec.name.casefold() for spec in specs}
        if unknown := [name for name in own if name not in names]:
            raise ValueError(f"no model is called {unknown[0]}")
        return value

    @field_validator("devices", mode="before")
    @classmethod
    def _parse_devices(cls, value: Any) -> Any:
        parts = ["cuda:0" if part == "cuda" else part for part in _listed(value, lower=True)]
        if parts == ["auto"]:
            return "auto"
        if not parts or not all(map(_DEVICE.fullmatch, parts)):
            raise ValueError("not a list of devices")
        if len(set(parts)) != len(parts):
            raise ValueError("a device is named twice; ELMO_WORKERS_PER_DEVICE adds workers")
        return tuple(parts)

    @field_validator("api_keys", mode="before")
    @classmethod
    def _parse_api_keys(cls, value: Any) -> Any:
        plain = _listed(value)
        # A header can carry these characters alone: any other key could never be sent.
        if not all(key_file.KEY.fullmatch(key) for key in plain):
            raise ValueError("a key is empty, is in quotes or holds other characters")
        return tuple(dict.fromkeys(plain))

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _parse_cors_origins(cls, value: Any) -> Any:
        plain = [origin.rstrip("/") for origin in _listed(value, lower=True)]
        if plain != ["*"] and not all(_ORIGIN.fullmatch(origin) for origin in plain):
            raise ValueError("not a list of origins: scheme, host and port")
        return tuple(dict.fromkeys(plain))

    @field_validator("api_keys_file", mode="before")
    @classmethod
    def _read_api_keys(cls, value: Any) -> Any:
        return key_file.read(Path(value)) if isinstance(value, str | Path) else value

    @field_validator("log_level", "log_format", "precision", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _listed(value: Any, *, lower: bool = False) -> list[str]:
    """Return the parts of a text between commas, or the items of a list, as texts."""
    parts = value.split(",") if isinstance(value, str) else value
    plain = (each.get_secret_value() if isinstance(each, SecretStr) else each for each in parts)
    texts = [str(each).strip() for each in plain]
    return [text.lower() for text in texts] if lower else texts


def _precisions(text: str) -> tuple[Precision, dict[str, Precision]]:
    """Return the precision of most models, and those that are set by name, which is in lower case.

    Raises ValueError for an unknown precision and for two common ones.
    """
    common: list[Precision] = []
    own: dict[str, Precision] = {}
    for entry in text.split(","):
        name, _, precision = entry.strip().rpartition("=")
        if precision not in PRECISIONS:
            raise ValueError(f"there is no {precision!r}")
        if name:
            own[name.casefold()] = precision_of(precision)
        else:
            common.append(precision_of(precision))
    if len(common) > 1:
        raise ValueError(f"{common[0]} and {common[1]} are both without a name")
    return (common or ["float32"])[0], own


class SettingsError(OptionError):
    """Settings are wrong. `refusals` has one line each: variable, value and what is allowed."""

    def __init__(self, *refusals: str) -> None:
        super().__init__("; ".join(refusals))
        self.refusals: Sequence[str] = refusals

    @property
    def lines(self) -> Sequence[str]:
        """The refusals."""
        return self.refusals


def variable(name: str) -> str:
    """Return the environment variable of a field."""
    return PREFIX + name.upper()


def option(name: str) -> str:
    """Return the command line option of a field."""
    return _OPTIONS.get(name, "--" + name.replace("_", "-"))
