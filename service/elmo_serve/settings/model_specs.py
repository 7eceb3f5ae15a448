"""The models that a server is told to serve: a name for each, and where its weights lie."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elmo_model.models.catalogue import canonical

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""A name that a user may give to a model: `NAME=SOURCE`."""

_NAMED: Final = re.compile(rf"({NAME})=(.+)")
_ENDINGS: Final = (".safetensors", ".hdf5", ".tar.gz", ".tgz", ".tar", ".zip", ".json")
_PAIR: Final = ("options.json", "options_file", "weights.hdf5", "weights_file", "model.hdf5")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._:/-]+")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model to serve: its name in requests, and its built-in name, published name or path.

    `fault` is the reason why it cannot be served although the server starts, such as a download
    that failed; empty for none.
    """

    name: str
    source: str
    fault: str = ""


def spec_of(source: str) -> ModelSpec:
    """Return the model of a known name, or of a path: the name is its last part.

    For a file of a published pair it is the name of the folder.
    """
    name = canonical(source)
    if name == source and ("/" in source or Path(source).suffix):
        place = Path(source).resolve()
        name = place.parent.name if place.name in _PAIR else place.name
        ending = next((each for each in _ENDINGS if name.endswith(each)), "")
        name = name.removesuffix(ending) or name
    return ModelSpec(_UNFIT.sub("-", name), source)


def parse(text: str) -> tuple[ModelSpec, ...]:
    """Read a list such as `english,original,pt=path/to/model`.

    Raises ValueError for an empty entry, and for two models of one name in any case.
    """
    specs: dict[str, ModelSpec] = {}  # names are looked up in any case
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            raise ValueError("an entry is empty")
        named = _NAMED.fullmatch(entry)
        spec = ModelSpec(named[1], named[2]) if named else spec_of(entry)
        if specs.setdefault(spec.name.casefold(), spec) is not spec:
            raise ValueError(f"two models are called {spec.name}; NAME=PATH gives another name")
    return tuple(specs.values())
