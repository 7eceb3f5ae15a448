"""The registered tasks: a folder with one JSON file each, shared by all servers that mount it."""

import errno
import logging
import os
import re
import shutil
import stat
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import shown
from elmo_model.files import atomic as atomic_files
from elmo_model.network.task import TASK_NAME, Task
from elmo_serve.errors import Conflict, RequestError, ServiceError, Unavailable, UnknownTask
from elmo_serve.settings import variable
from elmo_serve.tasks.file import TaskFile, TaskOwner, encode, load

MAX_TASKS: Final = 1_000
"""Tasks that `put` keeps: a refresh of the cache costs one `stat` each, some 5 ms for all."""

FIT_SUFFIX: Final = ".fit"
"""End of the name of a folder with the head and the report of a fitted task."""

_SUFFIX: Final = ".json"
_NAMES_SHOWN: Final = 5
_NAME: Final = re.compile(TASK_NAME)
_TRANSIENT: Final = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)  # of network file systems

_log = logging.getLogger(__name__)


class TaskFolder:
    """The task files of all models of a server, by name.

    The folder is the truth and this its cache. `get` and `list` read the cache alone, so that the
    event loop never waits for a disk. All other methods read or write the folder: one thread calls
    them. A file gets its name by a rename, so that readers see whole files and, of several servers,
    the last writer wins.
    """

    def __init__(self, path: Path | None) -> None:
        """Read the files of a folder that exists; None: there are no tasks, and `put` refuses."""
        self.path = path
        self._files: Mapping[str, TaskFile] = {}  # by name, sorted; replaced, never changed
        self._owners: list[TaskOwner] = []
        self._logged: set[Hashable] = set()
        self._is_readable = True
        self.refresh()

    def get(self, name: str, owner: TaskOwner) -> Task:
        """Return a task of a model.

        Raises UnknownTask, which names some of the tasks that exist; Conflict for a task of another
        revision of the model.
        """
        if (file := self._files.get(name)) is None:
            raise self._unknown(name, owner)
        try:
            return file.task(name, owner)
        except UnknownTask as error:
            raise UnknownTask(f"No task {shown(name)}: {error.detail}") from None

    def list(self, owner: TaskOwner) -> tuple[Task, ...]:
        """Return all tasks of a model in the order of their names."""
        found = []
        for name, file in self._files.items():
            with suppress(UnknownTask, Conflict):
                found.append(file.task(name, owner))
        return tuple(found)

    def add(self, owner: TaskOwner) -> None:
        """Log the files of a model that it cannot use, from now on."""
        self._owners.append(owner)
        for name, file in self._files.items():
            self._log_faults(name, file)

    def put(
        self, tasks: Sequence[Task], owner: TaskOwner, fit: Mapping[str, Any] | None = None
    ) -> bool:
        """Write the files of tasks of a model, in place of others of their names.

        All files are written before the first one gets its name. `fit` says what the weights were
        learned from; `NAME.fit` of former weights is deleted. When this returns, the whole files
        are on the disk. Returns whether the model had none of the tasks.

        Raises:
            InvalidRequest, TooLarge: a task is impossible for this model; each fault is listed.
            Conflict: no task of this name can be kept here, or the folder is missing or read-only.
            Unavailable: the folder cannot be read or written at present.
        """
        contents = {task.name: encode(task, owner, fit) for task in tasks}
        if self.path is None:
            raise Conflict(
                "Tasks are not kept: the default task folder cannot be written; "
                f"{variable('tasks')} names another one"
            )
        self._list(self.path)
        for name in contents:
            self._check_free(name, owner)
        is_new = contents.keys().isdisjoint(task.name for task in self.list(owner))
        try:
            with ExitStack() as stack:
                for name, data in contents.items():
                    written = stack.enter_context(atomic_files.replacing(_file(self.path, name)))
                    written.write_bytes(data)
                for name in contents:
                    _delete_fit(self.path, name)
        except OSError as error:
            raise _unwritable(error) from error
        finally:
            self._read(self.path, *contents)
        return is_new

    def delete(self, name: str, owner: TaskOwner) -> None:
        """Delete a task file, also one that is left out, and the files of its fit.

        Raises UnknownTask; Conflict or Unavailable where the folder cannot be changed.
        """
        if self.path is None or not _NAME.fullmatch(name):
            raise self._unknown(name, owner)
        self._read(self.path, name)  # another server may have deleted it
        file = self._files.get(name)
        if file is not None and not file.owned_by(owner):
            self.get(name, owner)  # raises
        try:
            atomic_files.remove(_file(self.path, name))
            _delete_fit(self.path, name)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.path.is_dir():
                raise self._unknown(name, owner) from None
            raise _unwritable(error) from error
        finally:
            self._read(self.path, name)

    def refresh(self) -> None:
        """Read the files that are new or have changed; an unreadable folder leaves the cache."""
        if self.path is not None:
            with suppress(Conflict, Unavailable):  # it is in the log; known tasks stay known
                self._list(self.path)

    def _list(self, folder: Path) -> None:
        """Read the folder. Raises Conflict where it is missing, Unavailable for another error."""
        try:
            names = self._names(folder)
        except OSError as error:
            if self._is_readable:
                _log.error("The task folder cannot be read: %s", error)
            self._is_readable = False
            raise _unreachable(error, "read", retry_after=5) from error
        self._is_readable = True
        self._files = {name: file for name, file in self._files.items() if name in names}
        self._read(folder, *names)

    def _names(self, folder: Path) -> set[str]:
        """Return the names that the task files have; log a foreign file once."""
        names = set()
        for file in os.listdir(folder):  # noqa: PTH208 - names are needed, not paths
            name = file.removesuffix(_SUFFIX)
            if file.endswith(_SUFFIX) and _NAME.fullmatch(name):
                names.add(name)
            elif not (file.startswith(".") or file.endswith(FIT_SUFFIX)):
                fault = f"a task file is called NAME{_SUFFIX}, where NAME is {TASK_NAME}"
                self._log_once(f"{shown(file)} in the task folder is left out: {fault}")
        return names

    def _read(self, folder: Path, *names: str) -> None:
        """Read files that are new or have changed; forget those that do not exist."""
        found = {name: self._read_one(_file(folder, name), name) for name in names}
        files = {**self._files, **found}
        self._files = {name: each for name, each in sorted(files.items()) if each is not None}

    def _read_one(self, path: Path, name: str) -> TaskFile | None:
        known = self._files.get(name)
        stamp: tuple[int, ...] = ()
        try:
            status = path.stat()
            # A renamed file has another inode, one changed in place another time or size.
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if known is not None and known.stamp == stamp:
                return known
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            file = TaskFile(stamp, load(path, name))
        except FileNotFoundError:
            return None
        except OSError as error:
            if known is not None and error.errno in _TRANSIENT:
                return known
            # Without a stamp: it is read again, though it has not changed.
            file = TaskFile((), None, error.strerror or str(error))
        except (RequestError, ValueError) as error:
            file = TaskFile(stamp, None, str(error))
        self._log_faults(name, file)
        return file

    def _log_faults(self, name: str, file: TaskFile) -> None:
        """Log why a model, or every one, leaves out a file; once for each file and reason."""
        if file.body is None:
            self._log_once(f"Task file {name}{_SUFFIX} is left out: {file.fault}", file.stamp)
            return
        for owner in self._owners:
            if file.owned_by(owner):
                try:
                    file.task(name, owner)
                except (UnknownTask, Conflict) as error:
                    self._log_once(f"Task file {name}{_SUFFIX}: {error.detail}", file.stamp)

    def _log_once(self, message: str, *key: Hashable) -> None:
        if (message, key) not in self._logged:
            self._logged.add((message, key))
            _log.warning("%s", message)

    def _check_free(self, name: str, owner: TaskOwner) -> None:
        """Raise Conflict for a name that another task has, or that no further task can have."""
        file = self._files.get(name)
        if file is not None:
            if not file.owned_by(owner):
                raise Conflict(f"Task {name!r} belongs to another model; choose another name")
            return
        # A disk that ignores case would write two such names to one file.
        twin = next((each for each in self._files if each.casefold() == name.casefold()), None)
        if twin is not None:
            raise Conflict(f"Task {name!r} differs only in case from task {twin!r}")
        if len(self._files) >= MAX_TASKS:
            raise Conflict(
                f"There are {len(self._files)} tasks already; at most {MAX_TASKS} are kept"
            )

    def _unknown(self, name: str, owner: TaskOwner) -> UnknownTask:
        """Return the error for a name without a file."""
        names = [task.name for task in self.list(owner)]
        if self.path is None:
            known = f"there are none, the server has no task folder ({variable('tasks')})"
        elif not names:
            known = "none is registered"
        else:
            more = len(names) - _NAMES_SHOWN
            shown_names = ", ".join(map(repr, names[:_NAMES_SHOWN]))
            known = f"registered are {shown_names}" + (f" and {more} more" * (more > 0))
        return UnknownTask(f"No task {shown(name)}: {known}")


def _file(folder: Path, name: str) -> Path:
    return folder / (name + _SUFFIX)


def _delete_fit(folder: Path, name: str) -> None:
    """Delete head and report of a fitted task: a reader would pair them with other weights."""
    shutil.rmtree(folder / f"{name}{FIT_SUFFIX}", ignore_errors=True)


def _unwritable(error: OSError) -> ServiceError:
    """Return the error for a file that cannot be written or deleted, and log it."""
    _log.error("The task folder cannot be written: %s", error)
    if error.errno in (errno.ENOTEMPTY, errno.EISDIR):
        return Conflict("A folder has the name of this task's file")
    return _unreachable(error, "written", retry_after=60)


def _unreachable(error: OSError, verb: str, retry_after: float) -> ServiceError:
    """Return Conflict for a folder that only another folder or mount makes usable."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            state = "missing"
        case errno.EROFS | errno.EACCES | errno.EPERM if verb == "written":
            state = "read-only"
        case _:
            return Unavailable(f"The task folder cannot be {verb}", retry_after=retry_after)
    return Conflict(f"Tasks cannot be changed: the task folder ({variable('tasks')}) is {state}")
