"""A published model by the addresses of its files, from the cache folder of the environment."""

import os
from pathlib import Path

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.models.catalogue import CACHE, cache_folder, not_published, published_pair
from elmo_model.models.opening import open_published_pair
from elmo_model.network.elmo import ElmoNetwork


def open_cached_pair(options: str, weights: str) -> ElmoNetwork:
    """Load the published model of two URLs from the cache. Raises CheckpointError without it."""
    if (found := published_pair(options, weights)) is None:
        raise CheckpointError(not_published(options, weights))
    model, *files = found
    folder = (cache_folder(os.environ.get(CACHE, "").strip()) or Path()) / model.folder
    for file in files:
        if not (folder / file.name).is_file():
            raise CheckpointError(
                f"{folder / file.name}: does not exist; `elmo download {model.name}` fetches it"
            )
    return open_published_pair(folder, *found)
