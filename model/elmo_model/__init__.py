"""ELMo, the network: tokens in, one vector a layer and token out. Knows nothing of HTTP.

    from elmo_model import Encoder, open_model

    encoder = Encoder.of(open_model("english"))
    (layers,) = encoder.embed([["The", "bank", "of", "the", "river"]])  # (3, 5, 512)

`Elmo` and `batch_to_ids` are AllenNLP's. All names are imported at their first use, and torch with
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_model.allennlp.character_ids import batch_to_ids
    from elmo_model.allennlp.module import Elmo
    from elmo_model.errors import ElmoError
    from elmo_model.inference.encoder import Encoder
    from elmo_model.models.opening import open_model

__all__ = ["Elmo", "ElmoError", "Encoder", "batch_to_ids", "open_model"]

_HOMES = {
    "Elmo": "elmo_model.allennlp.module",
    "ElmoError": "elmo_model.errors",
    "Encoder": "elmo_model.inference.encoder",
    "batch_to_ids": "elmo_model.allennlp.character_ids",
    "open_model": "elmo_model.models.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
