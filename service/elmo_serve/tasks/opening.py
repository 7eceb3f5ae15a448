"""Where the task folder is, and the thread that reads and writes it: it may hang."""

import asyncio
import logging
import os
import queue
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import platformdirs

from elmo_model.network.task import Task
from elmo_serve.errors import Unavailable
from elmo_serve.settings import SettingsError, variable
from elmo_serve.tasks.file import TaskOwner
from elmo_serve.tasks.folder import TaskFolder

CALL_SECONDS: Final = 10.0
"""Seconds after which a request does not wait for the folder any longer. A larger value leaves more
requests open while a network file system hangs; a smaller one refuses more on a slow disk."""

REFRESH_SECONDS: Final = 0.5
"""Seconds between two refreshes of the cache; a change by another server is seen within 1 s."""

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]

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
    try:
        return platformdirs.user_data_path("elmo-serve") / "tasks"
    except RuntimeError as error:
        raise SettingsError(f"{variable('tasks')} is not set: {error}") from None


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


class TaskThread:
    """Runs calls that read or write the task folder, one after another.

    A daemon thread: while the folder hangs, calls fail after `seconds`, and the process can end.
    """

    def __init__(self, seconds: float = CALL_SECONDS) -> None:
        self._seconds = seconds
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._watch: asyncio.Task[None] | None = None
        threading.Thread(target=self._work, name="elmo-tasks", daemon=True).start()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call. A call that has not begun in time is not made.

        Raises Unavailable where the folder does not answer in time, and what the call raises.
        """
        future: Future[T] = Future()
        self._calls.put((future, partial(call, *args, **kwargs)))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            raise Unavailable("The task folder does not answer", retry_after=10) from None

    def watch(self, refresh: Callable[[], object]) -> None:
        """Call `refresh` every `REFRESH_SECONDS` until `close`."""
        self._watch = asyncio.create_task(self._refresh(refresh))

    def close(self) -> None:
        """End the watch, and the thread once the folder answers."""
        if self._watch is not None:
            self._watch.cancel()
        self._calls.put(None)

    async def _refresh(self, refresh: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            with suppress(Unavailable):
                await self.run(refresh)

    def _work(self) -> None:
        while (asked := self._calls.get()) is not None:
            future, call = asked
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
