"""/tasks: the named scalar mixes that the server has read from its task folder."""

from typing import Annotated

from fastapi import APIRouter, Path

from elmo_model.network.task import TASK_NAME
from elmo_serve.http.routes.common import Model, TheServer
from elmo_serve.http.schemas.tasks import TaskList, TaskResponse
from elmo_serve.tasks import members

router = APIRouter(tags=["Tasks"])

# For the document alone: a request with another name is answered 404, as an unknown task.
Name = Annotated[
    str, Path(description="The task's name.", json_schema_extra={"pattern": f"^{TASK_NAME}$"})
]


@router.get(
    "/tasks",
    operation_id="listTasks",
    summary="List the tasks",
    response_model_exclude_none=True,
)
async def list_tasks(server: TheServer, model: Model = None) -> TaskList:
    """Return all registered tasks of a model in the order of their names."""
    served = server.models.get(model)
    tasks = served.tasks.list(served.owner)
    return TaskList(tasks=[TaskResponse(**members(task, served.owner)) for task in tasks])


@router.get(
    "/tasks/{name}",
    operation_id="getTask",
    summary="Get a task",
    response_model_exclude_none=True,
)
async def get_task(name: Name, server: TheServer, model: Model = None) -> TaskResponse:
    """Return one task. 409: it is for another revision of the model."""
    served = server.models.get(model)
    return TaskResponse(**members(served.tasks.get(name, served.owner), served.owner))
