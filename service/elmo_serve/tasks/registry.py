"""The registered tasks: a folder with one JSON file each, shared by all servers that mount it."""

import errno
import logging
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import shown
from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import locked_file
from elmo_model.network.task import TASK_NAME, Task
from elmo_serve.errors import Conflict, RequestError, ServiceError, Unavailable, UnknownTask
from elmo_serve.settings import variable
from elmo_serve.tasks.file import ForeignTaskError, TaskOwner, check, encode, load

MAX_TASKS: Final = 1_000
"""Tasks that `put` keeps: a refresh of the cache costs one `stat` each, some 5 ms for all."""

REFRESH_SECONDS: Final = 0.5
"""Seconds between two refreshes of the cache; a change by another server is seen within 1 s."""

FIT_SUFFIX: Final = ".fit"
"""End of the name of a folder with the head and the report of a fitted task."""

_SUFFIX: Final = ".json"
_LOCK: Final = ".lock"
_NAMES_SHOWN: Final = 5
_NAME: Final = re.compile(TASK_NAME)
_TRANSIENT: Final = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)  # of network file systems
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)
_READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _File:
    """A task file as it was read: a task, or the `fault` for which it is left out.

    `is_of_another_model` tells that it belongs to another model, `is_outdated` to another revision.
    """

    stamp: tuple[int, ...]
    task: Task | None
    fault: str = ""
    is_of_another_model: bool = False
    is_outdated: bool = False


class Notices:
    """The faults of a task folder that are in the log, for all registries of a server."""

    def __init__(self) -> None:
        self._logged: set[Hashable] = set()
        self._lock = threading.Lock()

    def is_new(self, *fault: Hashable) -> bool:
        """Tell whether a fault is not in the log yet; it counts as logged from now on."""
        with self._lock:
            known = fault in self._logged
            self._logged.add(fault)
            return not known


class TaskRegistry:
    """The tasks of one model by name.

    The folder is the truth and the registry its cache. `get` and `list` read the cache alone, so
    that the event loop never waits for a disk or a network file system. `put` and `delete` change
    the folder and then the cache; `refresh` reads the files that have changed since. These three
    belong in a thread. A file that cannot be a task is left out and logged once. The models of a
    server share the folder, and a name belongs to one of them.
    """

    def __init__(
        self, folder: Path | None, owner: TaskOwner, notices: Notices | None = None
    ) -> None:
        """Read the tasks of `folder`, which exists; None: there are no tasks, and `put` refuses.

        `notices` are those of the registries that share the folder.
        """
        self.folder = folder
        self.owner = owner
        self._files: Mapping[str, _File] = {}  # by name, sorted; replaced, never changed
        self._notices = notices or Notices()
        self._is_readable = True
        self._lock = threading.Lock()  # of `refresh`, `put` and `delete`
        self._closed = threading.Event()
        self.refresh()

    def get(self, name: str) -> Task:
        """Return a task.

        Raises UnknownTask, which names some of the tasks that exist; Conflict for a task of another
        revision of the model.
        """
        file = self._files.get(name)
        if file is not None and file.is_outdated:
            raise Conflict(file.fault)
        if file is None or file.task is None:
            raise UnknownTask(self._unknown(name))
        return file.task

    def list(self) -> tuple[Task, ...]:
        """Return all tasks in the order of their names."""
        return tuple(file.task for file in self._files.values() if file.task is not None)

    def put(self, task: Task, fit: Mapping[str, Any] | None = None) -> bool:
        """Write a task file, in place of any other of its name; return whether there was no task.

        `fit` says what the weights were learned from. `NAME.fit` of the former weights is deleted.
        When this returns, the whole file is on the disk.

        Raises:
            InvalidRequest: the task is impossible for this model; each fault is listed.
            Conflict: no task of this name can be kept here, or the folder is missing or read-only.
            Unavailable: the folder cannot be read or written at present.
        """
        data = encode(task, self.owner, fit)
        check(data, task.name, self.owner)
        folder = self._kept()
        path = folder / (task.name + _SUFFIX)
        with self._lock:
            self._refresh(folder)  # a folder that cannot be read is no reason to try a lock
            try:
                # Of the other models and servers: else two of them could give a name away at once.
                with locked_file(folder / _LOCK):
                    self._refresh(folder)
                    before = self._files.get(task.name)
                    self._check_free(task.name)
                    _delete_fit(folder, task.name)
                    if path.is_dir() and not path.is_symlink():
                        path.rmdir()  # a file cannot replace a folder
                    atomic_files.write_bytes(path, data)
            except OSError as error:
                raise unwritable(path, error) from error
            self._files = self._with(task.name, self._read(path, task.name))
        return before is None or before.task is None

    def delete(self, name: str) -> None:
        """Delete a task file, also one that is left out, and the files of its fit.

        Raises UnknownTask; Conflict or Unavailable where the folder cannot be changed.
        """
        if self.folder is None or not _NAME.fullmatch(name):
            raise UnknownTask(self._unknown(name))
        path = self.folder / (name + _SUFFIX)
        with self._lock:
            file = self._read(path, name)
            self._files = self._with(name, file)  # another server may have deleted it
            if file is not None and file.is_of_another_model:
                raise UnknownTask(f"No task {shown(name)}: {file.fault}")
            try:
                with locked_file(self.folder / _LOCK):
                    atomic_files.remove(path)
                    _delete_fit(self.folder, name)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and self.folder.is_dir():
                    raise UnknownTask(self._unknown(name)) from None
                raise unwritable(path, error) from error
            finally:
                self._files = self._with(name, self._read(path, name))

    def refresh(self) -> None:
        """Read the files that are new or have changed; an unreadable folder leaves the cache."""
        if self.folder is not None:
            with self._lock:
                try:
                    self._refresh(self.folder)
                except (Conflict, Unavailable):
                    return  # it is in the log; tasks that are known stay known

    def watch(self) -> None:
        """Refresh the cache every `REFRESH_SECONDS` in a thread of its own, until `close`."""
        threading.Thread(target=self._watch, name="tasks", daemon=True).start()

    def close(self) -> None:
        """End the thread of `watch`."""
        self._closed.set()

    def _watch(self) -> None:
        pause = REFRESH_SECONDS
        while not self._closed.wait(pause):
            start = time.thread_time()
            self.refresh()
            # A folder of a hundred thousand files must not keep a core busy. To wait for the disk
            # keeps none busy: after that no change may be seen late.
            pause = max(REFRESH_SECONDS, 10 * (time.thread_time() - start))

    def _refresh(self, folder: Path) -> None:
        try:
            names = sorted(self._names(folder))
        except OSError as error:
            if self._is_readable:
                _log.error("The task folder cannot be read: %s", error)
            self._is_readable = False
            if error.errno in _MISSING:
                raise _unchangeable("missing") from error
            raise Unavailable("The task folder cannot be read", retry_after=5) from error
        self._is_readable = True
        files = {name: self._read(folder / (name + _SUFFIX), name) for name in names}
        self._files = {name: file for name, file in files.items() if file is not None}

    def _with(self, name: str, file: _File | None) -> Mapping[str, _File]:
        """Return the cache with another file for one name; None: without it."""
        others = {key: each for key, each in self._files.items() if key != name}
        return dict(sorted({**others, name: file}.items())) if file is not None else others

    def _names(self, folder: Path) -> Sequence[str]:
        """Return the names that the task files have; log a foreign file once."""
        names = []
        for file in os.listdir(folder):  # noqa: PTH208 - names are needed, not paths
            name = file.removesuffix(_SUFFIX)
            if file.endswith(_SUFFIX) and _NAME.fullmatch(name):
                names.append(name)
            elif not (file.startswith(".") or file.endswith(FIT_SUFFIX)) and self._notices.is_new(
                file
            ):
                _log.warning(
                    "%s in the task folder is left out: a task file is called NAME%s, where NAME "
                    "is %s",
                    shown(file),
                    _SUFFIX,
                    TASK_NAME,
                )
        return names

    def _read(self, path: Path, name: str) -> _File | None:
        """Return a file, read again if it has changed; None if it does not exist."""
        known = self._files.get(name)
        stamp: tuple[int, ...] = ()
        is_outdated = is_unread = False
        try:
            status = path.stat()
            # A renamed file has another inode, one changed in place another time or size.
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if known is not None and known.stamp == stamp:
                return known
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            return _File(stamp, load(path, name, self.owner))
        except FileNotFoundError:
            return None
        except ForeignTaskError as error:
            return _File(stamp, None, str(error), is_of_another_model=True)
        except OSError as error:
            if known is not None and error.errno in _TRANSIENT:
                return known
            fault = error.strerror or str(error)
            is_unread = True
        except (RequestError, ValueError) as error:
            fault = str(error)
            is_outdated = isinstance(error, Conflict)
        is_known = known is not None and known.fault == fault
        if not is_known and self._notices.is_new(name, stamp, fault):
            _log.warning("Task file %s is left out: %s", path, fault)
        if is_unread:
            stamp = ()  # the next refresh reads it again, though it has not changed
        return _File(stamp, None, fault, is_outdated=is_outdated)

    def _kept(self) -> Path:
        """Return the task folder. Raises Conflict where there is none."""
        if self.folder is None:
            raise Conflict(
                "Tasks are not kept: the default task folder cannot be written; "
                f"{variable('tasks')} names another one"
            )
        return self.folder

    def _check_free(self, name: str) -> None:
        file = self._files.get(name)
        if file is None:
            self._check_room(name)
        elif file.is_of_another_model:
            remedy = f"choose another name, or another folder by {variable('tasks')}"
            raise Conflict(f"Task {name!r} cannot be replaced: {file.fault}; {remedy}")

    def _check_room(self, name: str) -> None:
        # A disk that ignores case would write two such names to one file.
        twin = next((each for each in self._files if each.casefold() == name.casefold()), None)
        if twin is not None:
            raise Conflict(f"Task {name!r} differs only in case from task {twin!r}")
        if len(self._files) >= MAX_TASKS:
            raise Conflict(
                f"There are {len(self._files)} tasks already; at most {MAX_TASKS} are kept"
            )

    def _unknown(self, name: str) -> str:
        start = f"No task {shown(name)}"
        if self.folder is None:
            return f"{start}: there are none, the server has no task folder ({variable('tasks')})"
        file = self._files.get(name)
        if file is not None and file.is_of_another_model:
            return f"{start}: {file.fault}"
        broken = f"; its file is left out: {file.fault}" if file is not None else ""
        names = [task.name for task in self.list()]
        if not names:
            return f"{start}: none is registered{broken}"
        more = len(names) - _NAMES_SHOWN
        known = ", ".join(map(repr, names[:_NAMES_SHOWN])) + (f" and {more} more" * (more > 0))
        return f"{start}; registered: {known}{broken}"


def _delete_fit(folder: Path, name: str) -> None:
    """Delete head, report and picture of a fitted task, if there are any. Raises OSError."""
    path = folder / f"{name}{FIT_SUFFIX}"
    if path.is_symlink():
        path.unlink()
        return
    with suppress(FileNotFoundError, NotADirectoryError):  # a file of this name is not ours
        shutil.rmtree(path)


def unwritable(path: Path, error: OSError) -> ServiceError:
    """Return the error for a file of the task folder that cannot be written, and log it."""
    if isinstance(error, BlockingIOError):
        return Unavailable(str(error), retry_after=10)
    _log.error("The task folder cannot be written: %s", error)
    if error.errno in _MISSING:
        return _unchangeable("missing")
    if error.errno in _READ_ONLY:
        return _unchangeable("read-only")
    if error.errno == errno.ENOTEMPTY:
        return Conflict(f"{path.name} in the task folder is a folder that is not empty")
    return Unavailable("The task folder cannot be written", retry_after=60)


def _unchangeable(state: str) -> Conflict:
    """Return the error for a task folder that only another folder or mount makes usable."""
    return Conflict(
        f"Tasks cannot be changed here: the task folder ({variable('tasks')}) is {state}"
    )
