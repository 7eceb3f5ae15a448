"""/tasks: the named scalar mixes.

Reading is answered from the registry's cache. Only PUT and DELETE touch files, in a thread.
"""

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from elmo_model.task import Task
from elmo_serve.errors import (
    Conflict,
    DeadlineExceeded,
    FieldError,
    InternalError,
    InvalidRequest,
    MalformedBody,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownTask,
    UnsupportedMediaType,
    pointer,
    shown,
)
from elmo_serve.http import headers, request_body
from elmo_serve.http.problem_details import documented
from elmo_serve.http.schemas import TaskList, TaskResponse
from elmo_serve.http.state import TheServer
from elmo_serve.task_schema import TASK_NAME, TASK_NAME_RULE

router = APIRouter()

# For the document alone: a request with another name is answered 404, as an unknown task.
Name = Annotated[
    str, Path(description="The task's name.", json_schema_extra={"pattern": f"^{TASK_NAME}$"})
]

_ALWAYS = (Unauthorized, InternalError, Unavailable)
_BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/TaskBody"}}}}


@router.head("/tasks", include_in_schema=False)
@router.get("/tasks", summary="List the tasks", responses=documented(_ALWAYS))
async def list_tasks(server: TheServer) -> TaskList:
    """Return all registered tasks in the order of their names."""
    return TaskList(tasks=[_answer(task) for task in server.tasks.list()])


@router.head("/tasks/{name}", include_in_schema=False)
@router.get("/tasks/{name}", summary="Get a task", responses=documented((*_ALWAYS, UnknownTask)))
async def get_task(name: Name, server: TheServer) -> TaskResponse:
    """Return one task."""
    return _answer(server.tasks.get(name))


@router.put(
    "/tasks/{name}",
    summary="Register a task, or replace it",
    responses={
        201: {"model": TaskResponse, "description": "There was no task of this name."},
        **documented(
            (
                *_ALWAYS,
                MalformedBody,
                Conflict,
                TooLarge,
                UnsupportedMediaType,
                InvalidRequest,
                DeadlineExceeded,
            )
        ),
    },
    openapi_extra={"requestBody": {"required": True, **_BODY}},
)
async def put_task(
    name: Name, request: Request, server: TheServer, response: Response
) -> TaskResponse:
    """Register a task. The next request to this server sees it, other servers within a second."""
    headers.check_json(request.scope)
    timeout_seconds = server.settings.request_timeout_seconds
    body = request_body.parse_task(
        await request_body.read(request.scope, request.receive, server.receiving, timeout_seconds)
    )
    if not re.fullmatch(TASK_NAME, name):
        raise InvalidRequest(f"The path names task {shown(name)}; a name must be {TASK_NAME_RULE}.")
    if "name" in body.model_fields_set and body.name != name:
        detail = f"the body names {shown(body.name)} and the path {shown(name)}"
        # RFC 9110, 9.3.4: a representation that is not of the resource it is put to.
        raise Conflict(f"/name: {detail}", errors=[FieldError(pointer("name"), detail)])
    task = Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)
    created = await asyncio.to_thread(server.tasks.put, task)
    response.status_code = 201 if created else 200
    return _answer(task)


@router.delete(
    "/tasks/{name}",
    summary="Delete a task",
    status_code=204,
    response_class=Response,
    responses=documented((*_ALWAYS, UnknownTask, Conflict)),
)
async def delete_task(name: Name, server: TheServer) -> None:
    """Delete a task."""
    await asyncio.to_thread(server.tasks.delete, name)


def _answer(task: Task) -> TaskResponse:
    return TaskResponse(
        name=task.name,
        weights=list(task.weights),
        gamma=task.gamma,
        layer_norm=task.layer_norm,
        description=task.description,
    )
