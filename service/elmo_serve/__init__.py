"""ELMo vectors over HTTP.

`from elmo_serve import ElmoEmbedder` gives AllenNLP's class, remote or in this process. It is
imported at its first use: `import elmo_serve` loads neither torch nor an HTTP client.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_serve.elmo_embedder import ElmoEmbedder

__all__ = ["ElmoEmbedder"]


def __getattr__(name: str) -> Any:
    if name == "ElmoEmbedder":
        from elmo_serve.elmo_embedder import ElmoEmbedder  # noqa: PLC0415 - loaded at first use

        return ElmoEmbedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
