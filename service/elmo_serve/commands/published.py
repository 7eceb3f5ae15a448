"""Model names on the command line: built-in and published names become paths or built-in names.

One rule for every command: a name, in any case, wins over a file or folder of that name in the
working folder. A note on stderr mentions the path if both exist; `./small` is always the path.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from elmo_model.models.catalogue import BUILT_IN, canonical, path_fault, published_model
from elmo_serve.commands.terminal import download_progress, fail, tell

if TYPE_CHECKING:
    from elmo_serve.settings import Settings


def resolve_model(model: str) -> str:
    """Return a built-in name, the path of a published model, or a path, which may be missing.

    A published model is downloaded if the cache lacks it, with progress on the terminal. Raises
    DownloadError and SettingsError.
    """
    from elmo_serve.models import locate

    _note_path_of_this_name(model)
    return locate(model, progress=download_progress)


def with_resolved_models(settings: Settings) -> Settings:
    """Return settings whose models are resolved as by `resolve_model`.

    One of several models that does not exist or cannot be had is kept with its `fault`, for the
    others are served all the same. The command ends where none is left.
    """
    from elmo_serve.models import DownloadError, cache_settings, locate

    specs = []
    for spec in settings.specs:
        _note_path_of_this_name(spec.source)
        try:
            source = locate(spec.source, lambda: cache_settings(settings), download_progress)
        except DownloadError as error:
            specs.append(replace(spec, fault=str(error)))
            continue
        fault = None if source in BUILT_IN else path_fault(source)
        specs.append(replace(spec, source=source, fault=fault or ""))
    faults = [spec.fault for spec in specs if spec.fault]
    for fault in faults[: -1 if len(faults) == len(specs) else None]:
        tell(fault)
    if len(faults) == len(specs):
        fail(faults[-1], code=1)
    return settings.model_copy(update={"models": tuple(specs)})


def _note_path_of_this_name(name: str) -> None:
    """Mention the file or folder that a name hides."""
    if canonical(name) in BUILT_IN:
        kind = "built-in"
    elif published_model(name) is not None:
        kind = "published"
    else:
        return
    # Unlike `Path.exists`, False in a working folder that this user may not search.
    if os.path.exists(name):  # noqa: PTH110
        what = "folder" if os.path.isdir(name) else "file"  # noqa: PTH112
        tell(f"{name} names the {kind} model; write ./{name} for the {what} of this name")
