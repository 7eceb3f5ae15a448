"""The built-in English model. `english.md` in this folder is its model card."""

from pathlib import Path

from elmo_model import checkpoints
from elmo_model.elmo import Elmo

NAME = "english"

_WEIGHTS = Path(__file__).with_name("english.safetensors")


def build() -> Elmo:
    """Return the network in float32; the file holds float16."""
    return checkpoints.load(_WEIGHTS)
