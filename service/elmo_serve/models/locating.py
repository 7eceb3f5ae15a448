"""From the name of a model to the path of its files, on the machine that needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_serve.models.cache import CacheSettings, cache_of_environment
from elmo_serve.models.fetching import fetch
from elmo_serve.models.transfer import OnProgress

Progress = Callable[[], AbstractContextManager[OnProgress]]
"""Makes the context in which a model is downloaded; it gives a function that shows the progress."""


@contextmanager
def unseen() -> Iterator[OnProgress]:
    """Show no progress."""
    yield lambda _name, _done, _total: None


def locate(
    model: str,
    cache: Callable[[], CacheSettings] = cache_of_environment,
    progress: Progress = unseen,
) -> str:
    """Return a built-in name as it is spelt, the path of a published model, or a path unchanged.

    A name, in any case, wins over a file or folder of that name; `./small` is always the path. A
    published model is downloaded if the cache lacks it. `cache` is called for a published model
    alone: a user may have no home folder.

    Raises DownloadError for a published model that cannot be had.
    """
    name = canonical(model)
    if name in BUILT_IN:
        return name
    published = published_model(model)
    if published is None:
        return model
    with progress() as on_progress:
        return str(fetch(published, cache(), on_progress))
