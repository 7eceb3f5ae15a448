"""The English model that comes with the program; `english.md` beside it is its card."""

from pathlib import Path

from elmo_model import checkpoints
from elmo_model.elmo import Elmo

NAME = "english"

_WEIGHTS = Path(__file__).with_name("english.safetensors")


def build(token_cache_size: int) -> Elmo:
    """Return the network; its numbers are kept as float16 and served as float32."""
    return checkpoints.load(_WEIGHTS, token_cache_size=token_cache_size)
