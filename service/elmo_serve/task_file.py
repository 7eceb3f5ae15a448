"""One task as a JSON file: written and read by the rules of `PUT /tasks/{name}`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from elmo_model.task import Task
from elmo_serve.errors import FieldError, InvalidRequest, MalformedBody, pointer, shown
from elmo_serve.output import mix_faults
from elmo_serve.task_schema import TaskBody, optional
from elmo_serve.validation import validated

MAX_FILE_BYTES: Final = 64 * 1024
"""A task of 256 layers with the longest description has some 20 KiB; larger files are refused."""


class TaskFile(TaskBody):
    """A task file: the members of a PUT, and how `elmo fit` learned the weights."""

    fit: dict[str, Any] = optional(None, "Written by `elmo fit`; the service does not use it.")


def encode(task: Task, fit: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a task's file. `fit` says what the weights were learned from."""
    members: dict[str, Any] = {
        "name": task.name,
        "weights": list(task.weights),
        "gamma": task.gamma,
        "layer_norm": task.layer_norm,
        "description": task.description,
    }
    if fit is not None:
        members["fit"] = fit
    return json.dumps(members, indent=2).encode() + b"\n"


def load(path: Path, name: str, layers: int) -> Task:
    """Read the file of the task `name`, for a model of `layers` layers.

    Raises OSError; InvalidRequest, MalformedBody or ValueError where it is no such task.
    """
    # O_NONBLOCK: a pipe in place of the file must not hold the caller until somebody writes to it.
    with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    body = _parse(data, layers)
    # A file that was copied or renamed by hand holds a task of another name.
    found = shown(body.name) if "name" in body.model_fields_set else "nothing"
    if found != shown(name):
        raise ValueError(f"/name: must be {shown(name)} as in the file's name; found {found}")
    return Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)


def check(data: bytes, name: str, layers: int) -> None:
    """Raise InvalidRequest, which lists each fault, for a task that `load` would refuse."""
    try:
        _parse(data, layers)
    except InvalidRequest as error:
        raise InvalidRequest(f"Task {shown(name)}: {error.detail}", errors=error.errors) from None
    except MalformedBody:  # the one way to make `encode` write what is not JSON
        fault = FieldError(pointer("description"), "holds a lone surrogate")
        raise InvalidRequest(f"Task {shown(name)}: {fault.detail}", errors=[fault]) from None


def _parse(data: bytes, layers: int) -> TaskFile:
    """Read a task by the rules of a PUT. Raises MalformedBody and InvalidRequest."""
    body = validated(TaskFile, data)
    if faults := mix_faults(body.weights, body.gamma, layers):
        raise InvalidRequest("; ".join(fault.detail for fault in faults), errors=faults)
    return body
