"""ELMo vectors over HTTP.

`ElmoEmbedder`, `Elmo` and `batch_to_ids` are AllenNLP's, and compute in this process. They are
imported at their first use: `import elmo_serve` loads neither torch nor an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_model import Elmo, batch_to_ids
    from elmo_serve.elmo_embedder import ElmoEmbedder

__all__ = ["Elmo", "ElmoEmbedder", "batch_to_ids"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "elmo_serve.elmo_embedder" if name == "ElmoEmbedder" else "elmo_model"
    return getattr(import_module(home), name)
