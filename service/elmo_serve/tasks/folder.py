"""The task folder: the one of ELMO_TASKS, or a default in the user's data folder."""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import platformdirs

from elmo_model.network.task import Task
from elmo_serve.settings import SettingsError, variable
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.registry import Notices, TaskRegistry

_NOT_KEPT: Final = f"Tasks cannot be kept: %s. {variable('tasks')} sets their folder."

_THREADS: Final = ThreadPoolExecutor(2, "elmo-tasks")
"""For calls that read or write the folder, which hang with the network file system that it lies on.
Their own: the threads of `asyncio.to_thread` write the metrics and large responses."""

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def in_folder_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that reads or writes the task folder in a thread."""
    work = partial(call, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def open_registry(
    folder: Path | None,
    owner: TaskOwner,
    default: Path | None = None,
    notices: Notices | None = None,
) -> TaskRegistry:
    """Return the registry over `folder`; None: over `default`, or the one of the user's data.

    Raises SettingsError when `folder` cannot be used. A default folder that cannot be used is only
    logged, because nobody has asked for it.
    """
    if folder is not None:
        open_folder(folder)
        return TaskRegistry(folder, owner, notices)
    try:
        default = default or default_folder()
        open_folder(default, "the default folder")
        with tempfile.TemporaryFile(dir=default):
            return TaskRegistry(default, owner, notices)
    except SettingsError as error:
        _log.warning(_NOT_KEPT, error)
        return TaskRegistry(None, owner)
    except OSError as error:
        _log.warning(_NOT_KEPT, error)
        return TaskRegistry(default, owner, notices)


def keep_tasks(
    tasks: Sequence[Task],
    folder: Path | None,
    layers: int,
    model: str,
    revision: str,
    *,
    force: bool,
) -> list[Path]:
    """Write tasks of a model, all or none, to a folder, by default that of `elmo serve`.

    Return their files. Raises SettingsError where one of other weights exists, unless `force`.
    """
    folder = folder or default_folder()
    open_folder(folder, "FOLDER")
    registry = TaskRegistry(folder, TaskOwner(layers, model, model, revision))
    existing = {task.name: task for task in registry.list()}
    files = [folder / f"{task.name}.json" for task in tasks]
    for task, file in zip(tasks, files, strict=True):
        if not force and existing.get(task.name, task) != task:
            raise SettingsError(f"{file} exists; --force replaces it")
    for task in tasks:
        registry.put(task)
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
