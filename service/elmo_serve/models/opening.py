"""Open a model by its name, in this process."""

from __future__ import annotations

from pathlib import Path

from elmo_model.checkpoints import load_pair
from elmo_model.errors import ElmoError
from elmo_model.word_vectors.look_up import WordVectors
from elmo_serve.files.in_process import DeviceError, InProcess
from elmo_serve.models.cache import CacheSettings, cache_of_environment
from elmo_serve.models.fetching import Progress, locate, unseen


def open_network(
    model: str,
    cache: CacheSettings | None = None,
    progress: Progress = unseen,
    *,
    device: str = "auto",
    precision: str = "float32",
    owns_process: bool = False,
    words: WordVectors | None = None,
) -> InProcess:
    """Open the network of a built-in name, of a published name, or at a path.

    `cache` is by default that of the environment. `progress` is as for `locate`, all others as for
    `InProcess.open`.

    Raises:
        CheckpointError: there is no such model, or its files are damaged.
        DownloadError: a published model cannot be had.
        DeviceError: the machine has no such device, or cannot compute in this precision.
    """
    source = locate(model, lambda: cache or cache_of_environment(), progress)
    try:
        return InProcess.open(
            source, device=device, precision=precision, owns_process=owns_process, words=words
        )
    except ElmoError:
        raise
    except (RuntimeError, ValueError) as error:
        raise DeviceError(f"{device}, {precision}: {error}") from error


def open_pair(options: str, weights: str | Path, *, device: str = "auto") -> InProcess:
    """Open the network of a published pair whose files lie anywhere. Raises CheckpointError."""
    return InProcess.open(load_pair(options, weights), device=device)
