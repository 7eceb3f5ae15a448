"""Which folder the tasks lie in: the one of ELMO_TASKS, or a default in the user's data folder."""

import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import platformdirs

from elmo_model.network.task import Task
from elmo_serve.settings import SettingsError, variable
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.folder import TaskFolder

_NOT_KEPT: Final = f"Tasks cannot be kept: %s. {variable('tasks')} sets their folder."

_log = logging.getLogger(__name__)


def open_tasks(path: Path | None, default: Path | None = None) -> TaskFolder:
    """Return the task folder at `path`; None: at `default`, or in the user's data folder.

    Raises SettingsError when `path` cannot be used. A default folder that cannot be used is only
    logged, because nobody has asked for it.
    """
    if path is not None:
        open_folder(path)
        return TaskFolder(path)
    try:
        default = default or default_folder()
        open_folder(default, "the default folder")
        with tempfile.TemporaryFile(dir=default):
            return TaskFolder(default)
    except SettingsError as error:
        _log.warning(_NOT_KEPT, error)
        return TaskFolder(None)
    except OSError as error:
        _log.warning(_NOT_KEPT, error)
        return TaskFolder(default)


def keep_tasks(
    tasks: Sequence[Task], path: Path | None, owner: TaskOwner, *, force: bool
) -> list[Path]:
    """Write tasks of a model, all or none, to a folder, by default that of `elmo serve`.

    Return their files. Raises SettingsError where one of other weights exists, unless `force`.
    """
    path = path or default_folder()
    open_folder(path, "FOLDER")
    folder = TaskFolder(path)
    existing = {task.name: task for task in folder.list(owner)}
    files = [path / f"{task.name}.json" for task in tasks]
    for task, file in zip(tasks, files, strict=True):
        if not force and existing.get(task.name, task) != task:
            raise SettingsError(f"{file} exists; --force replaces it")
    folder.put(tasks, owner)
    return files


def default_folder() -> Path:
    """Return elmo-serve/tasks in the user's data folder. Raises SettingsError without a home."""
    folder = platformdirs.user_data_path("elmo-serve") / "tasks"
    if not folder.is_absolute():  # "~" was not replaced
        raise SettingsError(f"{variable('tasks')} is not set and the user has no home folder")
    return folder


def open_folder(folder: Path, called: str = variable("tasks")) -> None:
    """Make the folder of a setting if it is missing; `called` is the user's name for the setting.

    Raises SettingsError when it can be neither made nor read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.listdir(folder)  # noqa: PTH208 - only whether it can be read
    except OSError as error:
        # Unlike `Path.is_file`, False below a folder that this user may not search.
        is_file = os.path.isfile(folder)  # noqa: PTH113
        cause = "it is a file" if is_file else error.strerror or error
        raise SettingsError(
            f"{called}={str(folder)!r} is not allowed: {cause}; allowed: a folder that can be read "
            "or made"
        ) from None
