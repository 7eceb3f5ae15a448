"""One task as a JSON file: written and read by the rules of `PUT /tasks/{name}`."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from elmo_model.errors import shown
from elmo_model.network.task import Task
from elmo_serve.errors import Conflict, FieldError, InvalidRequest, MalformedBody, TooLarge, pointer
from elmo_serve.output import mix_faults
from elmo_serve.tasks.schema import TaskBody
from elmo_serve.validation import validated

MAX_FILE_BYTES: Final = 64 * 1024
"""A task of 256 layers with the longest description has some 20 KiB; larger files and bodies
of PUT are refused. Raising it lets a PUT hold up the event loop, which parses it."""


@dataclass(frozen=True, slots=True)
class TaskOwner:
    """The model whose tasks a registry holds.

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


class ForeignTaskError(ValueError):
    """A task file belongs to another model, `model`; None for the first one."""

    def __init__(self, model: str | None) -> None:
        owner = "the first model of the server" if model is None else f"model {shown(model)}"
        super().__init__(f"it belongs to {owner}")
        self.model = model


def members(task: Task, owner: TaskOwner) -> dict[str, Any]:
    """Return a task of a model as members of JSON: those of responses, and of its file."""
    weights = list(task.weights)
    return {**asdict(task), "weights": weights, "model": owner.name, "revision": owner.revision}


def encode(task: Task, owner: TaskOwner, fit: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a task's file. `fit` says what the weights were learned from."""
    found = members(task, owner) if owner.name else asdict(task)
    if fit is not None:
        found["fit"] = fit
    return json.dumps(found, indent=2).encode() + b"\n"


def load(path: Path, name: str, owner: TaskOwner) -> Task:
    """Read the file of the task `name`, for the model `owner`.

    Raises OSError; ForeignTaskError for a task of another model; Conflict for one of another
    revision; InvalidRequest or ValueError where it is no such task.
    """
    # O_NONBLOCK: a pipe in place of the file must not hold the caller until somebody writes to it.
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    try:
        body = _parse(data, owner)
    except MalformedBody as error:
        raise ValueError(error.detail.replace("The body", "it", 1)) from None
    # A file that was copied or renamed by hand holds a task of another name.
    found = shown(body.name) if "name" in body.model_fields_set else "nothing"
    if found != shown(name):
        raise ValueError(f"/name: must be {shown(name)} as in the file's name; found {found}")
    return Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)


def check(data: bytes, name: str, owner: TaskOwner) -> None:
    """Raise InvalidRequest, which lists each fault, or TooLarge for a file that `load` refuses."""
    if len(data) > MAX_FILE_BYTES:
        raise TooLarge(
            f"Task {shown(name)} takes {len(data)} bytes in its file, and at most {MAX_FILE_BYTES} "
            "are allowed: put less into fit."
        )
    try:
        _parse(data, owner)
    except InvalidRequest as error:
        raise InvalidRequest(f"Task {shown(name)}: {error.detail}", errors=error.errors) from None
    except MalformedBody:  # the one way to make `encode` write what is not JSON
        fault = FieldError(pointer("description"), "holds a lone surrogate")
        raise InvalidRequest(f"Task {shown(name)}: {fault.detail}", errors=[fault]) from None


def refuse_other_revision(name: str, revision: str | None, owner: TaskOwner) -> None:
    """Raise Conflict for a task that was made for another revision of its model."""
    if revision and owner.revision and revision != owner.revision:
        detail = (
            f"Task {shown(name)} is for revision {shown(revision)} of model {shown(owner.name)}, "
            f"which has revision {owner.revision} here"
        )
        raise Conflict(detail, errors=[FieldError(pointer("revision"), detail)])


def _parse(data: bytes, owner: TaskOwner) -> TaskBody:
    """Read a task by the rules of a PUT. Raises as `load` does."""
    body = validated(TaskBody, data)
    if not owner.owns(body.model, body.revision):
        raise ForeignTaskError(body.model)
    refuse_other_revision(body.name or "", body.revision, owner)
    if faults := mix_faults(body.weights, body.gamma, owner.layers):
        raise InvalidRequest("; ".join(fault.detail for fault in faults), errors=faults)
    return body
