"""The tasks of a server: a folder with one JSON file each, which is read and watched."""

import errno
import logging
import os
import re
import stat
from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import shown
from elmo_model.network.task import TASK_NAME, Task
from elmo_serve.errors import (
    Conflict,
    FieldError,
    MalformedBody,
    RequestError,
    UnknownTask,
    pointer,
)
from elmo_serve.mix import Mix, TaskName
from elmo_serve.selection import weights_fault
from elmo_serve.settings import SettingsError, variable
from elmo_serve.validation import ModelName, optional, validated
from elmo_serve.watch import LOOK_SECONDS, Watch

MAX_FILE_BYTES: Final = 64 * 1024
"""A task of 256 layers with the longest description has some 20 KiB; larger files are left out."""

MAX_DESCRIPTION_CHARACTERS: Final = 1_000

_SUFFIX: Final = ".json"
_FIT_SUFFIX: Final = ".fit"
"""End of the name of a folder of `elmo fit`, with the head and the report of a task."""

_NAMES_SHOWN: Final = 5
_NAME: Final = re.compile(TASK_NAME)
_TRANSIENT: Final = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)  # of network file systems

_log = logging.getLogger(__name__)


class TaskMembers(Mix):
    """The members of a task file, as `elmo fit` and `elmo tasks` write them.

    `fit` says what the weights were learned from. It is for people and may be anything; responses
    have the `measure` in it.
    """

    name: TaskName
    model: ModelName | None = optional(None, "The model that the task is for.")
    revision: str | None = optional(None, "The revision of the model's weights.", max_length=64)
    description: str = optional("", "For people.", max_length=MAX_DESCRIPTION_CHARACTERS)
    fit: Any = None


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The model that tasks are for.

    `layers` is its number of layers (L + 1), `name` its name in the server and `own_name` the one
    in its checkpoint: task files say one of them. An empty `name` owns the files of every model, an
    empty `revision` takes every revision. Files that name no model belong to the first model.
    """

    layers: int
    name: str = ""
    own_name: str = ""
    revision: str = ""
    is_first: bool = True

    def owns(self, model: str | None, revision: str | None = None) -> bool:
        """Tell whether a file that names `model` and `revision` belongs to this model.

        Equal revisions give equal vectors: such a file belongs to it under any name.
        """
        if model is None:
            return self.is_first
        if not self.name or (revision and revision == self.revision):
            return True
        return model.casefold() in (self.name.casefold(), self.own_name.casefold())


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file as it was read: its members, or the `fault` for which every model leaves it out.

    `stamp` is the identity, size and times of the file; empty: it is read again.
    """

    stamp: tuple[int, ...]
    members: TaskMembers | None
    fault: str = ""

    def owned_by(self, owner: TaskOwner) -> bool:
        """Tell whether the file belongs to a model; one that cannot be read belongs to all."""
        return self.members is None or owner.owns(self.members.model, self.members.revision)

    def task(self, owner: TaskOwner) -> Task:
        """Return the task of a model.

        Raises UnknownTask where it is none, and Conflict for one of another revision.
        """
        found = self.members
        if found is None:
            raise UnknownTask(f"its file is left out: {self.fault}")
        if not self.owned_by(owner):
            other = "the first model" if found.model is None else f"model {shown(found.model)}"
            raise UnknownTask(f"it belongs to {other}")
        if found.revision and owner.revision and found.revision != owner.revision:
            detail = (
                f"Task {shown(found.name)} is for revision {shown(found.revision)} of model "
                f"{shown(owner.name)}, which has revision {owner.revision} here"
            )
            raise Conflict(detail, errors=[FieldError(pointer("revision"), detail)])
        if (fault := weights_fault(found.weights, owner.layers)) is not None:
            raise UnknownTask(f"its file is left out: {fault.detail}")
        return Task(
            found.name,
            tuple(found.weights),
            found.gamma,
            found.layer_norm,
            found.description,
            _measure_of(found.fit),
        )


def _measure_of(fit: Any) -> str | None:
    """Return the measure that a file of `elmo fit` names; None in older and other files."""
    measure = fit.get("measure") if isinstance(fit, dict) else None
    return measure if measure in ("accuracy", "span_f1") else None


def members(task: Task, owner: TaskOwner) -> dict[str, Any]:
    """Return a task of a model as members of JSON: those of responses, and of its file."""
    found = asdict(task) | {"weights": list(task.weights)}
    measure = found.pop("measure")
    fit = {} if measure is None else {"fit": {"measure": measure}}
    return {**found, "model": owner.name, "revision": owner.revision, **fit}


def parse(data: bytes, name: str) -> TaskMembers:
    """Return the members of the file of the task `name`.

    Raises ValueError or InvalidRequest where it is no such task of any model.
    """
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        found = validated(TaskMembers, data)
    except MalformedBody as error:
        raise ValueError(error.detail.replace("The body", "it", 1)) from None
    if found.name != name:  # a file that was copied or renamed by hand
        raise ValueError(
            f"/name: must be {shown(name)} as in the file's name; found {shown(found.name)}"
        )
    return found


def load(path: Path) -> TaskMembers:
    """Read the task file at `path`, NAME.json. Raises OSError, and as `parse`."""
    # O_NONBLOCK: a pipe in place of the file must not hold the caller until somebody writes to it.
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
        return parse(file.read(MAX_FILE_BYTES + 1), path.stem)


class TaskFolder:
    """The task files of all models of a server, by name.

    The folder is the truth and this its cache. `look` reads the folder in the thread of `watch`,
    the other methods read the cache alone, so that the event loop never waits for a disk.

    Attributes:
        path: the folder; None: there are no tasks.
        opened: ends with the first look, with SettingsError where the folder cannot be read.
        watch: calls `look` once it is started.
    """

    def __init__(self, path: Path | None, seconds: float = LOOK_SECONDS) -> None:
        self.path = path
        self.opened: Future[None] = Future()
        self.watch = Watch("elmo-tasks", self.look, seconds)
        self._files: Mapping[str, TaskFile] = {}  # by name, sorted; replaced, never changed
        self._owners: list[TaskOwner] = []
        self._logged: set[Hashable] = set()
        self._is_readable = True

    def start(self) -> None:
        """Start the watch, if there is a folder."""
        if self.path is None:
            self.opened.set_result(None)
        else:
            self.watch.start()

    def get(self, name: str, owner: TaskOwner) -> Task:
        """Return a task of a model.

        Raises UnknownTask, which names some of the tasks that exist; Conflict for a task of another
        revision of the model.
        """
        if (file := self._files.get(name)) is None:
            raise self._unknown(name, owner)
        try:
            return file.task(owner)
        except UnknownTask as error:
            raise UnknownTask(f"No task {shown(name)}: {error.detail}") from None

    def list(self, owner: TaskOwner) -> tuple[Task, ...]:
        """Return all tasks of a model in the order of their names."""
        found = []
        for file in self._files.values():
            with suppress(UnknownTask, Conflict):
                found.append(file.task(owner))
        return tuple(found)

    def add(self, owner: TaskOwner) -> None:
        """Log the files of a model that it cannot use, from now on."""
        self._owners.append(owner)
        for name, file in self._files.items():
            self._log_faults(name, file)

    def look(self) -> None:
        """Read the files that are new or have changed; an unreadable folder leaves the cache."""
        assert self.path is not None
        try:
            names = self._names(self.path)
        except OSError as error:
            if not self.opened.done():
                fault = f"{variable('tasks')}={str(self.path)!r} cannot be read: {error.strerror}"
                self.opened.set_exception(SettingsError(fault))
            elif self._is_readable:
                _log.error("The task folder cannot be read: %s", error)
            self._is_readable = False
            return
        self._is_readable = True
        found = {name: self._read(self.path / f"{name}{_SUFFIX}", name) for name in sorted(names)}
        self._files = {name: file for name, file in found.items() if file is not None}
        if not self.opened.done():
            self.opened.set_result(None)

    def _names(self, folder: Path) -> set[str]:
        """Return the names that the task files have; log a foreign file once."""
        names = set()
        for file in os.listdir(folder):  # noqa: PTH208 - names are needed, not paths
            name = file.removesuffix(_SUFFIX)
            if file.endswith(_SUFFIX) and _NAME.fullmatch(name):
                names.add(name)
            elif not (file.startswith(".") or file.endswith(_FIT_SUFFIX)):
                fault = f"a task file is called NAME{_SUFFIX}, where NAME is {TASK_NAME}"
                self._log_once(f"{shown(file)} in the task folder is left out: {fault}")
        return names

    def _read(self, path: Path, name: str) -> TaskFile | None:
        """Return a task file, as it is known if it has not changed; None if it does not exist."""
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
            file = TaskFile(stamp, load(path))
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
        if file.members is None:
            self._log_once(f"Task file {name}{_SUFFIX} is left out: {file.fault}", file.stamp)
            return
        for owner in self._owners:
            if file.owned_by(owner):
                try:
                    file.task(owner)
                except (UnknownTask, Conflict) as error:
                    self._log_once(f"Task file {name}{_SUFFIX}: {error.detail}", file.stamp)

    def _log_once(self, message: str, *key: Hashable) -> None:
        if (message, key) not in self._logged:
            self._logged.add((message, key))
            _log.warning("%s", message)

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
