"""/tasks: the named scalar mixes."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response

from model.task import Task
from service.dependencies import TheServer
from service.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    MalformedBody,
    Unauthorized,
    Unavailable,
    UnknownTask,
    pointer,
    shown,
)
from service.problems import documented
from service.schemas import TaskAnswer, TaskBody, TaskList, TaskName

router = APIRouter()

Name = Annotated[TaskName, Path(description="The task's name.")]

_ALWAYS = (Unauthorized, Unavailable)


@router.get("/tasks", summary="List the tasks", responses=documented(_ALWAYS))
async def list_tasks(server: TheServer) -> TaskList:
    """Return all registered tasks in the order of their names."""
    found = await asyncio.to_thread(server.tasks.list)
    return TaskList(tasks=[_answer(task) for task in found])


@router.get(
    "/tasks/{name}",
    summary="Get a task",
    responses=documented((*_ALWAYS, UnknownTask, InvalidRequest)),
)
async def get_task(name: Name, server: TheServer) -> TaskAnswer:
    """Return one task."""
    return _answer(await asyncio.to_thread(server.tasks.get, name))


@router.put(
    "/tasks/{name}",
    summary="Register a task, or replace it",
    responses={
        201: {"model": TaskAnswer, "description": "There was none of this name."},
        **documented((*_ALWAYS, Conflict, InvalidRequest, MalformedBody)),
    },
)
async def put_task(name: Name, body: TaskBody, server: TheServer, response: Response) -> TaskAnswer:
    """Keep a task on disk; the next request sees it."""
    if "name" in body.model_fields_set and body.name != name:
        detail = f"the body names {shown(body.name)} and the path {shown(name)}"
        raise InvalidRequest(f"/name: {detail}", errors=[FieldError(pointer("name"), detail)])
    task = Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)
    created = await asyncio.to_thread(server.tasks.put, task)
    response.status_code = 201 if created else 200
    return _answer(task)


@router.delete(
    "/tasks/{name}",
    summary="Forget a task",
    status_code=204,
    responses=documented((*_ALWAYS, UnknownTask, Conflict, InvalidRequest)),
)
async def delete_task(name: Name, server: TheServer) -> None:
    """Remove a task."""
    await asyncio.to_thread(server.tasks.delete, name)


def _answer(task: Task) -> TaskAnswer:
    return TaskAnswer(
        name=task.name,
        weights=list(task.weights),
        gamma=task.gamma,
        layer_norm=task.layer_norm,
        description=task.description,
    )
