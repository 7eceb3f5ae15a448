"""Model names on the command line: built-in and published names become paths or built-in names.

One rule for every command: a name, in any case, wins over a file or folder of that name in the
working folder. A note on stderr mentions the path if both exist; `./small` is always the path.
"""

from __future__ import annotations

import os

from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_serve.commands.terminal import download_progress, tell
from elmo_serve.models.fetching import locate


def resolve_model(model: str) -> str:
    """Return a built-in name, the path of a published model, or a path, which may be missing.

    A published model is downloaded if the cache lacks it, with progress on the terminal. Raises
    DownloadError and SettingsError.
    """

    note_path_of_this_name(model)
    return locate(model, progress=download_progress)


def note_path_of_this_name(name: str) -> None:
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
