"""Values of settings that are written as text: models, precisions, devices, keys and origins.

The functions raise ValueError for a text that is not allowed.
"""

import ipaddress
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from elmo_model.inference.precision import PRECISIONS, Precision, precision_of
from elmo_model.models.catalogue import canonical

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""A name that a user may give to a model: `NAME=SOURCE`."""

_NAMED: Final = re.compile(rf"({NAME})=(.+)")
_ENDINGS: Final = (".safetensors", ".hdf5", ".tar.gz", ".tgz", ".tar", ".zip", ".json")
_PAIR: Final = ("options.json", "options_file", "weights.hdf5", "weights_file", "model.hdf5")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._:/-]+")

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:_\[\]-]+")
_DEVICE: Final = re.compile(r"cpu|cuda:(0|[1-9][0-9]{0,2})")
KEY: Final = re.compile(r"(?![\"'])[!-+\--~]+")
"""Printable ASCII but the space and the comma: what a header and a list of keys can carry. A quote
in front would be part of the key, which nobody means."""

_NAMED_KEY: Final = re.compile(rf"(?:([A-Za-z0-9._-]{{1,64}}):[ \t]+)?({KEY.pattern})")

_KEY_FILE_BYTES: Final = 1 << 20

Stamp = tuple[int, int, int]
"""Time of the last change in nanoseconds, inode and size: another one is another content."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model to serve: its name in requests, and its built-in name, published name or path.

    `fault` is the reason why it cannot be served although the server starts, such as a download
    that failed; empty for none.
    """

    name: str
    source: str
    fault: str = ""


def source_of(source: str) -> ModelSource:
    """Return the model of a known name, or of a path: the name is its last part.

    For a file of a published pair it is the name of the folder.
    """
    name = canonical(source)
    if name == source and ("/" in source or Path(source).suffix):
        place = Path(source).resolve()
        name = place.parent.name if place.name in _PAIR else place.name
        ending = next((each for each in _ENDINGS if name.endswith(each)), "")
        name = name.removesuffix(ending) or name
    return ModelSource(_UNFIT.sub("-", name), source)


def parse(text: Any) -> Any:
    """Read a list such as `english,original,pt=path/to/model`, of names that differ in any case."""
    if not isinstance(text, str):
        return text
    models: dict[str, ModelSource] = {}  # names are looked up in any case
    for entry in listed(text):
        if not entry:
            raise ValueError("an entry is empty")
        named = _NAMED.fullmatch(entry)
        model = ModelSource(named[1], named[2]) if named else source_of(entry)
        if models.setdefault(model.name.casefold(), model) is not model:
            raise ValueError(f"two models are called {model.name}; NAME=PATH gives another name")
    return tuple(models.values())


def precisions(text: str) -> tuple[Precision, dict[str, Precision]]:
    """Return the precision of most models, and those of names, which are in lower case."""
    common: list[Precision] = []
    own: dict[str, Precision] = {}
    for entry in listed(text):
        name, _, precision = entry.rpartition("=")
        if precision not in PRECISIONS:
            raise ValueError(f"there is no {precision!r}")
        if name:
            own[name.casefold()] = precision_of(precision)
        else:
            common.append(precision_of(precision))
    if len(common) > 1:
        raise ValueError(f"{common[0]} and {common[1]} are both without a name")
    return (common or ["float32"])[0], own


def parse_devices(value: Any) -> Any:
    """Return the names of distinct devices, or `auto`; `cuda` is the first CUDA device."""
    parts = ["cuda:0" if part == "cuda" else part for part in map(str.lower, listed(value))]
    if parts == ["auto"]:
        return "auto"
    if not parts or not all(map(_DEVICE.fullmatch, parts)):
        raise ValueError("not a list of devices")
    if len(set(parts)) != len(parts):
        raise ValueError("a device is named twice; ELMO_WORKERS_PER_DEVICE adds workers")
    return tuple(parts)


def parse_keys(value: Any) -> tuple[str, ...]:
    """Return distinct API keys."""
    keys = listed(value)
    # A header can carry these characters alone: any other key could never be sent.
    if not all(map(KEY.fullmatch, keys)):
        raise ValueError("a key is empty, is in quotes or holds other characters")
    return tuple(dict.fromkeys(keys))


def parse_origins(value: Any) -> tuple[str, ...]:
    """Return distinct origins as browsers send them (RFC 6454, 6.2), or `*` alone."""
    origins = [origin.lower().rstrip("/") for origin in listed(value)]
    if origins != ["*"] and not all(map(_ORIGIN.fullmatch, origins)):
        raise ValueError("not a list of origins: scheme, host and port")
    return tuple(dict.fromkeys(map(_without_default_port, origins)))


def _without_default_port(origin: str) -> str:
    for scheme, port in (("http://", ":80"), ("https://", ":443")):
        if origin.startswith(scheme):
            return origin.removesuffix(port)
    return origin


def within_the_system(path: Any, check: Callable[[Any], Any]) -> Any:
    """Check a path; one that the system refuses, such as a name of 300 letters, is a ValueError."""
    try:
        return check(path)
    except OSError as error:
        raise ValueError(error.strerror) from error


def listed(value: Any) -> list[str]:
    """Return the parts of a text between commas, or the items of a list, as texts."""
    parts = value.split(",") if isinstance(value, str) else value
    plain = (each.get_secret_value() if isinstance(each, SecretStr) else each for each in parts)
    return [str(each).strip() for each in plain]


def lower(value: str) -> str:
    """Return a text in lower case, without white space around it."""
    return value.strip().lower()


def is_loopback(address: str) -> bool:
    """Tell whether an address or a host name leads to this machine alone."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return address.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys that a file held at `stamp`, and the name of each; empty for none."""

    path: Path
    stamp: Stamp | None
    names: dict[str, str] = field(repr=False)


def read_keys(place: str | Path) -> KeyFile:
    """Read a file of keys: `KEY` or `NAME: KEY` a line; blank lines and `#` lines are skipped.

    Raises:
        ValueError: the file cannot be read, a line is no key, or there is none. The text shows
            nothing of the file.
    """
    path = Path(place)
    found_at = stamp_of(path)  # before the text: a change in between is seen by the next look
    names: dict[str, str] = {}
    try:
        # Without O_NONBLOCK a FIFO would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("is no regular file")
            content = file.read(_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(content) > _KEY_FILE_BYTES:
        raise ValueError(f"is larger than {_KEY_FILE_BYTES} bytes")
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _NAMED_KEY.fullmatch(text)
        if found is None:
            raise ValueError(
                f"line {number} is no key: expected KEY or NAME: KEY, a key of printable ASCII "
                "without spaces, commas and quotes"
            )
        name, key = found.groups()
        names.setdefault(key, name or "")
    if not names:  # a server that was given a file is meant to ask for keys
        raise ValueError("holds no key")
    return KeyFile(path, found_at, names)


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of the file that a path leads to, through links; None for no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
