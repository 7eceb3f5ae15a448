"""One task as a JSON file: written and read by the rules of `PUT /tasks/{name}`."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import shown
from elmo_model.network.task import Task
from elmo_serve.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    MalformedBody,
    TooLarge,
    UnknownTask,
    pointer,
)
from elmo_serve.output import weights_fault
from elmo_serve.schema import validated
from elmo_serve.tasks.schema import TaskBody

MAX_FILE_BYTES: Final = 64 * 1024
"""A task of 256 layers with the longest description has some 20 KiB; larger files and bodies
of PUT are refused. Raising it lets a PUT hold up the event loop, which parses it."""


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
    body: TaskBody | None
    fault: str = ""

    def owned_by(self, owner: TaskOwner) -> bool:
        """Tell whether the file belongs to a model; one that cannot be read belongs to all."""
        return self.body is None or owner.owns(self.body.model, self.body.revision)

    def task(self, name: str, owner: TaskOwner) -> Task:
        """Return the task of a model.

        Raises UnknownTask where it is none, and Conflict for one of another revision.
        """
        body = self.body
        if body is None:
            raise UnknownTask(f"its file is left out: {self.fault}")
        if not self.owned_by(owner):
            other = "the first model" if body.model is None else f"model {shown(body.model)}"
            raise UnknownTask(f"it belongs to {other}")
        refuse_other_revision(name, body.revision, owner)
        if (fault := weights_fault(body.weights, owner.layers)) is not None:
            raise UnknownTask(f"its file is left out: {fault.detail}")
        return Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)


def members(task: Task, owner: TaskOwner) -> dict[str, Any]:
    """Return a task of a model as members of JSON: those of responses, and of its file."""
    weights = list(task.weights)
    return {**asdict(task), "weights": weights, "model": owner.name, "revision": owner.revision}


def encode(task: Task, owner: TaskOwner, fit: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a task's file. `fit` says what the weights were learned from.

    Raises InvalidRequest, which lists each fault, for a task that no model or not this one can
    have, and TooLarge for a file that would not be read.
    """
    found = members(task, owner) if owner.name else asdict(task)
    if fit is not None:
        found["fit"] = fit
    data = json.dumps(found, indent=2).encode() + b"\n"
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(
            f"Task {shown(task.name)} takes {len(data)} bytes in its file, and at most "
            f"{MAX_FILE_BYTES} are allowed: put less into fit."
        )
    try:
        fault = weights_fault(validated(TaskBody, data).weights, owner.layers)
        faults = [] if fault is None else [fault]
    except InvalidRequest as error:
        faults = list(error.errors)
    except MalformedBody:  # a lone surrogate, which JSON text cannot hold
        faults = [FieldError(pointer("description"), "holds a lone surrogate")]
    if faults:
        detail = "; ".join(fault.detail for fault in faults)
        raise InvalidRequest(f"Task {shown(task.name)}: {detail}", errors=faults)
    return data


def load(path: Path, name: str) -> TaskBody:
    """Read the file of the task `name`.

    Raises OSError; InvalidRequest or ValueError where it is no such task of any model.
    """
    # O_NONBLOCK: a pipe in place of the file must not hold the caller until somebody writes to it.
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        body = validated(TaskBody, data)
    except MalformedBody as error:
        raise ValueError(error.detail.replace("The body", "it", 1)) from None
    # A file that was copied or renamed by hand holds a task of another name.
    found = "nothing" if body.name is None else shown(body.name)
    if found != shown(name):
        raise ValueError(f"/name: must be {shown(name)} as in the file's name; found {found}")
    return body


def refuse_other_revision(name: str, revision: str | None, owner: TaskOwner) -> None:
    """Raise Conflict for a task that was made for another revision of its model."""
    if revision and owner.revision and revision != owner.revision:
        detail = (
            f"Task {shown(name)} is for revision {shown(revision)} of model {shown(owner.name)}, "
            f"which has revision {owner.revision} here"
        )
        raise Conflict(detail, errors=[FieldError(pointer("revision"), detail)])
