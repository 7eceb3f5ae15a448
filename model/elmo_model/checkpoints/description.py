"""The description of a network as optional strings in the header of a native file."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.errors import shown
from elmo_model.network.config import ElmoConfig
from elmo_model.network.description import Centre, Description, Trained
from elmo_model.text.tokenizers import TOKENIZERS
from elmo_model.validation import parsed


@dataclass(frozen=True, slots=True)
class _StoredCentre:
    """`layers` is the base64 text of float32 (L + 1, 2P), little-endian."""

    text: str
    tokens: int
    layers: str


def to_header(description: Description) -> dict[str, str]:
    """Return the known facts as strings of a header."""
    centre, trained = description.centre, description.trained
    values = {"tokenizer": description.tokenizer, "language": description.language}
    if centre is not None:
        layers = base64.b64encode(centre.layers.astype("<f4").tobytes()).decode()
        stored = _StoredCentre(centre.text, centre.tokens, layers)
        values["centre"] = json.dumps(asdict(stored))
    if trained is not None:
        values["trained"] = json.dumps(asdict(trained))
    return {key: value for key, value in values.items() if value is not None}


def of_header(path: Path, header: Mapping[str, str], config: ElmoConfig) -> Description:
    """Read the description of a network. Raises CheckpointError for a value that does not fit."""
    tokenizer = header.get("tokenizer")
    if tokenizer is not None and tokenizer not in TOKENIZERS:
        expected = ", ".join(TOKENIZERS)
        raise CheckpointError(
            f"{path}: header tokenizer is {shown(tokenizer)}, expected one of {expected}"
        )
    try:
        trained = parsed(Trained, header["trained"], "trained") if "trained" in header else None
        centre = _centre(header["centre"], config) if "centre" in header else None
    except ValueError as error:
        raise CheckpointError(f"{path}: header {error}") from error
    return Description(tokenizer, header.get("language"), centre, trained)


def _centre(text: str, config: ElmoConfig) -> Centre:
    stored, shape = parsed(_StoredCentre, text, "centre"), (config.layers, config.dimension)
    data = base64.b64decode(stored.layers, validate=True)
    if len(data) != 4 * shape[0] * shape[1]:
        raise ValueError(f"centre.layers has {len(data):,} bytes, expected float32 {shape}")
    layers = np.frombuffer(data, "<f4").reshape(shape).astype(np.float32)
    if not np.isfinite(layers).all():
        raise ValueError("centre.layers holds NaN or infinity, expected finite numbers")
    return Centre(stored.text, stored.tokens, layers)
