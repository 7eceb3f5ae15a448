"""ELMo, the network: tokens in, one vector a layer and token out. Knows nothing of HTTP.

`Elmo` and `batch_to_ids` are AllenNLP's. They are imported at their first use, and torch with them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_model.elmo import Elmo, batch_to_ids

__all__ = ["Elmo", "batch_to_ids"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from elmo_model import elmo  # noqa: PLC0415 - loaded at first use

        return getattr(elmo, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
