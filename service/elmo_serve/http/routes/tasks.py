"""/tasks: the named scalar mixes.

Reading is answered from memory. Only PUT and DELETE touch files, in a thread.
"""

import re
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from elmo_model.errors import shown
from elmo_model.network.task import TASK_NAME, TASK_NAME_RULE, Task
from elmo_serve.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    pointer,
)
from elmo_serve.http import headers
from elmo_serve.http.calls.body import Body
from elmo_serve.http.routes.common import Model, TheServer
from elmo_serve.schema import validated
from elmo_serve.tasks.file import MAX_FILE_BYTES, TaskOwner, members, refuse_other_revision
from elmo_serve.tasks.schema import TaskBody, TaskList, TaskResponse

router = APIRouter(tags=["Tasks"])

# For the document alone: a request with another name is answered 404, as an unknown task.
Name = Annotated[
    str, Path(description="The task's name.", json_schema_extra={"pattern": f"^{TASK_NAME}$"})
]

_BODY = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/TaskBody"}}}}


@router.get("/tasks", operation_id="listTasks", summary="List the tasks")
async def list_tasks(server: TheServer, model: Model = None) -> TaskList:
    """Return all registered tasks of a model in the order of their names."""
    served = server.models.get(model)
    tasks = served.tasks.list(served.owner)
    return TaskList(tasks=[_answer(task, served.owner) for task in tasks])


@router.get("/tasks/{name}", operation_id="getTask", summary="Get a task")
async def get_task(name: Name, server: TheServer, model: Model = None) -> TaskResponse:
    """Return one task. 409: it is for another revision of the model."""
    served = server.models.get(model)
    return _answer(served.tasks.get(name, served.owner), served.owner)


@router.put(
    "/tasks/{name}",
    operation_id="putTask",
    summary="Register a task, or replace it",
    responses={201: {"model": TaskResponse, "description": "There was no task of this name."}},
    openapi_extra={"requestBody": {"required": True, **_BODY}},
)
async def put_task(
    name: Name, request: Request, server: TheServer, response: Response, model: Model = None
) -> TaskResponse:
    """Register a task. The next request to this server sees it, other servers within a second.

    Its model is the one of the query, else the one of the body, else the first one.
    """
    headers.media_type(request.scope)
    # The server process parses this body itself, so its size is limited: a body of 8 MiB with a
    # million unknown fields would stop the event loop for seconds.
    body = validated(TaskBody, await _received(request, server))
    check_name(name)
    if "name" in body.model_fields_set and body.name != name:
        detail = f"the body names {shown(body.name)} and the path {shown(name)}: leave `name` out"
        # RFC 9110, 9.3.4: a representation that is not of the resource it is put to.
        raise Conflict(f"/name: {detail}", errors=[FieldError(pointer("name"), detail)])
    served = server.models.get(model or body.model)
    if body.model is not None and server.models.get(body.model) is not served:
        detail = f"the body names {shown(body.model)} and the query {shown(model)}"
        raise Conflict(f"/model: {detail}", errors=[FieldError(pointer("model"), detail)])
    owner = served.owner
    refuse_other_revision(name, body.revision, owner)
    task = Task(name, tuple(body.weights), body.gamma, body.layer_norm, body.description)
    created = await server.task_thread.run(served.tasks.put, [task], owner, body.fit)
    response.status_code = 201 if created else 200
    return _answer(task, owner)


@router.delete(
    "/tasks/{name}",
    operation_id="deleteTask",
    summary="Delete a task",
    status_code=204,
    response_class=Response,
)
async def delete_task(name: Name, server: TheServer, model: Model = None) -> None:
    """Delete a task."""
    served = server.models.get(model)
    await server.task_thread.run(served.tasks.delete, name, served.owner)


def check_name(name: str) -> None:
    """Raise InvalidRequest for a name that no task can have."""
    if not re.fullmatch(TASK_NAME, name):
        raise InvalidRequest(f"The path names task {shown(name)}; a name must be {TASK_NAME_RULE}.")


def _answer(task: Task, owner: TaskOwner) -> TaskResponse:
    return TaskResponse(**members(task, owner))


async def _received(request: Request, server: TheServer) -> bytes:
    """Return the body of a task, which is small.

    Raises:
        DeadlineExceeded, Unavailable: as the block of `EmbeddingCall`.
        ServiceError, DisconnectError: see `Body.receive`.
    """
    async with server.deadlines.begin(server.settings.request_timeout_seconds):
        most = min(MAX_FILE_BYTES, server.settings.max_body_bytes)
        with Body(request.scope, server.bodies, most, "of a task") as body:
            await body.receive(request.receive)
            return body.take()
