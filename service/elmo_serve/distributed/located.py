"""The files of a model on the machine that needs them."""

from collections.abc import Callable

from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_serve.model_cache import CacheSettings, locate


def located(model: str, cache: Callable[[], CacheSettings]) -> str:
    """Return a built-in name, a path, or the path of a published model, which is downloaded.

    `cache` is called for a published model alone: a user may have no home folder.

    Raises DownloadError for a published model that cannot be fetched.
    """
    name = canonical(model)
    if name in BUILT_IN:
        return name
    return locate(model, cache(), _unseen) if published_model(model) is not None else model


def _unseen(_file: str, _done: int, _size: int) -> None:
    """Show no progress: no terminal is there."""
