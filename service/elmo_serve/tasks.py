"""The registered tasks: a folder with one JSON file each, shared by every server that mounts it."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import secrets
import stat
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.task import Task
from elmo_serve.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    ServiceError,
    Unavailable,
    UnknownTask,
    pointer,
    shown,
)
from elmo_serve.output import mix_faults
from elmo_serve.settings import SettingsError, variable

MAX_TASKS: Final = 1_000
MAX_DESCRIPTION_CHARACTERS: Final = 1_000
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_SUFFIX: Final = ".json"
_MAX_FILE_BYTES: Final = 64 * 1024
_NAMES_SHOWN: Final = 5

_log = logging.getLogger(__name__)


class TaskRegistry:
    """Tasks by name, for a model of `layers` layers (L + 1, the token layer among them).

    The folder is the truth: a file that another server or a person put, changed or removed is seen
    by the next call. `get` is a look-up and one stat; the others read or write files and belong in
    a thread. Every method may be called from any thread.
    """

    def __init__(self, folder: Path | None, layers: int) -> None:
        """Make the folder where it is missing. Without a folder there are no tasks.

        Raises SettingsError when the folder cannot be used.
        """
        self._folder = folder
        self._layers = layers
        self._entries: dict[str, _Entry] = {}
        self._named: set[str] = set()
        self._writing = threading.Lock()
        if folder is not None:
            open_folder(folder)
            self.list()

    def get(self, name: str) -> Task:
        """Return a task; UnknownTask names `name` and some that there are."""
        task = self._find(name)
        if task is None:
            raise UnknownTask(self._unknown(name))
        return task

    def list(self) -> tuple[Task, ...]:
        """Return all tasks in the order of their names."""
        found = (self._find(name) for name in self._names())
        return tuple(task for task in found if task is not None)

    def put(self, task: Task) -> bool:
        """Keep `task` in place of any other of its name; return whether there was none.

        When this returns, the file is on the disk, whole. Raises InvalidRequest for a task that
        cannot be, Conflict where none can be kept.
        """
        if faults := task_faults(task, self._layers):
            raise InvalidRequest(
                f"Task {shown(task.name)}: {'; '.join(fault.detail for fault in faults)}",
                errors=faults,
            )
        if self._folder is None:
            raise Conflict(f"Tasks are not kept: the server runs without {variable('tasks')}")
        with self._writing:
            created = self._find(task.name) is None
            if created:
                self._check_room(task.name)
            try:
                _write(self._folder, task.name + _SUFFIX, _encode(task))
            except OSError as error:
                raise _unwritable(error) from error
        return created

    def delete(self, name: str) -> None:
        """Forget a task. Raises UnknownTask; Conflict where the folder is read-only."""
        with self._writing:
            self.get(name)
            assert self._folder is not None, "a task was found"
            try:
                (self._folder / (name + _SUFFIX)).unlink(missing_ok=True)
                _sync_folder(self._folder)
            except OSError as error:
                raise _unwritable(error) from error
            self._entries.pop(name, None)

    def _find(self, name: str) -> Task | None:
        """Return the task as the file has it now; None when there is none or it is broken."""
        if self._folder is None or not _NAME.fullmatch(name):
            return None
        path = f"{self._folder}/{name}{_SUFFIX}"
        try:
            stamp = _stamp(os.stat(path))  # noqa: PTH116 - the hot path: no Path is made
            entry = self._entries.get(name)
            if entry is None or entry.stamp != stamp:
                entry = self._entries[name] = self._read(path, name, stamp)
        except FileNotFoundError:
            self._entries.pop(name, None)
            return None
        except OSError as error:
            _log.error("The task folder cannot be read: %s", error)
            raise Unavailable("The task folder cannot be read", retry_after=5) from error
        return entry.task

    def _read(self, path: str, name: str, stamp: tuple[int, ...]) -> _Entry:
        try:
            with open(path, "rb", opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                stamp = _stamp(status)
                if not stat.S_ISREG(status.st_mode):
                    raise ValueError("not a file")
                return _Entry(stamp, _decode(file.read(_MAX_FILE_BYTES + 1), name, self._layers))
        except (ValueError, PermissionError, IsADirectoryError) as error:
            # Remembered under its stamp, and so said once.
            _log.warning("Task file %s is left out: %s", path, error)
            return _Entry(stamp, None)

    def _names(self) -> Sequence[str]:
        """Return what the folder holds by its file names, sorted; a foreign file is named once."""
        if self._folder is None:
            return []
        try:
            files = os.listdir(self._folder)  # noqa: PTH208 - names are wanted, not paths
        except OSError as error:
            _log.error("The task folder cannot be read: %s", error)
            raise Unavailable("The task folder cannot be read", retry_after=5) from error
        names = []
        for file in files:
            name = file.removesuffix(_SUFFIX)
            if file.endswith(_SUFFIX) and _NAME.fullmatch(name):
                names.append(name)
            elif not file.startswith(".") and file not in self._named:
                self._named.add(file)
                _log.warning(
                    "%s in the task folder is left out: a task's file is its name (%s) and %s",
                    file,
                    NAME,
                    _SUFFIX,
                )
        return sorted(names)

    def _check_room(self, name: str) -> None:
        names = self._names()
        # Two names that a disk which ignores case takes for one would overwrite each other.
        twin = next((each for each in names if each.casefold() == name.casefold()), name)
        if twin != name:
            raise Conflict(f"Task {name!r} differs only in case from task {twin!r}")
        if name not in names and len(names) >= MAX_TASKS:
            raise Conflict(f"There are {len(names)} tasks already; at most {MAX_TASKS} are kept")

    def _unknown(self, name: str) -> str:
        if self._folder is None:
            return (
                f"Unknown task {shown(name)}: there are none, "
                f"the server runs without {variable('tasks')}"
            )
        entries = self._entries
        names = [each for each in self._names() if each not in entries or entries[each].task]
        if not names:
            return f"Unknown task {shown(name)}: none is registered"
        more = len(names) - _NAMES_SHOWN
        known = ", ".join(map(repr, names[:_NAMES_SHOWN])) + (f" and {more} more" * (more > 0))
        return f"Unknown task {shown(name)}; registered: {known}"


def open_folder(folder: Path, called: str = variable("tasks")) -> None:
    """Make the folder of the tasks where it is missing; `called` is the user's name for it.

    Raises SettingsError when it can be neither made nor read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.listdir(folder)  # noqa: PTH208 - only whether it can be read
    except OSError as error:
        cause = "it is a file" if folder.is_file() else error.strerror or error
        raise SettingsError(
            f"{called}={str(folder)!r} is not allowed: {cause}; a folder that can be read or made"
        ) from None


def task_faults(task: Task, layers: int) -> list[FieldError]:
    """Return what makes a task impossible for a model of `layers` layers; mostly nothing."""
    faults = mix_faults(task.weights, task.gamma, layers)
    if not _NAME.fullmatch(task.name):
        faults.append(
            FieldError(
                pointer("name"),
                f"name is {shown(task.name)}; a name is 1 to 64 of A-Z a-z 0-9 . _ - "
                "and starts with a letter or a digit",
            )
        )
    description = task.description
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        faults.append(
            FieldError(
                pointer("description"),
                f"description has {len(description)} characters, "
                f"at most {MAX_DESCRIPTION_CHARACTERS} are kept",
            )
        )
    elif any("\ud800" <= character <= "\udfff" for character in description):
        faults.append(FieldError(pointer("description"), "description holds a lone surrogate"))
    return faults


_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class _Entry:
    stamp: tuple[int, ...]
    task: Task | None  # None: the file is broken, and was named


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # A renamed file has another inode, one changed in place another time or size.
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _open_at_once(path: str, flags: int) -> int:
    # A pipe of that name must not hold the caller until somebody writes to it.
    return os.open(path, flags | os.O_NONBLOCK)


def _encode(task: Task) -> bytes:
    members = {
        "name": task.name,
        "weights": list(task.weights),
        "gamma": task.gamma,
        "layer_norm": task.layer_norm,
        "description": task.description,
    }
    return json.dumps(members, indent=2).encode() + b"\n"


def _decode(data: bytes, name: str, layers: int) -> Task:
    """Read a task file. Raises ValueError with what is wrong, on one line."""
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"over {_MAX_FILE_BYTES} bytes")
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(members, dict):
        raise ValueError("not a JSON object")
    if unknown := sorted(members.keys() - _KINDS.keys()):
        raise ValueError(f"key {unknown[0]!r} is none of {', '.join(_KINDS)}")
    for key, kind in _KINDS.items():
        if key in members and not _is(members[key], kind):
            raise ValueError(f"{key!r} is {shown(members[key])}, not {kind}")
    # A file that was copied or renamed by hand holds another task than it says.
    if members.get("name") != name:
        raise ValueError(f"'name' is {shown(members.get('name'))}, the file's name says {name!r}")
    if "weights" not in members:
        raise ValueError("'weights' is missing")
    task = Task(
        name=name,
        weights=tuple(_number(each) for each in members["weights"]),
        gamma=_number(members.get("gamma", 1.0)),
        layer_norm=members.get("layer_norm", False),
        description=members.get("description", ""),
    )
    if faults := task_faults(task, layers):
        raise ValueError(faults[0].detail)
    return task


_KINDS: Final = {
    "name": "a string",
    "weights": "a list of numbers",
    "gamma": "a number",
    "layer_norm": "true or false",
    "description": "a string",
}


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "a string":
            return isinstance(value, str)
        case "a number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "true or false":
            return isinstance(value, bool)
        case _:
            return isinstance(value, list) and all(_is(each, "a number") for each in value)


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _write(folder: Path, name: str, data: bytes) -> None:
    """Put a whole file or none, also when the power fails: written aside, synced, renamed."""
    aside = folder / f".{name}.{secrets.token_hex(8)}.tmp"
    # The umask decides on the mode: another server, under another user, may have to read it.
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        aside.replace(folder / name)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(error: OSError) -> ServiceError:
    _log.error("The task folder cannot be written: %s", error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return Conflict("Tasks cannot be changed here: the task folder is read-only")
    return Unavailable("The task folder cannot be written", retry_after=60)
