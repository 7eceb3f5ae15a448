"""Schemas of registered tasks."""

from pydantic import BaseModel, ConfigDict, Field

from elmo_serve.tasks.schema import TASK_EXAMPLE


class TaskResponse(BaseModel):
    """A registered task."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "ner", **TASK_EXAMPLE, "model": "english", "revision": "3f1c9a20b7de"}
            ]
        }
    )

    name: str
    weights: list[float]
    gamma: float
    layer_norm: bool
    description: str
    model: str = Field(description="The model that the task is for.")
    revision: str = Field(description="The revision of its weights.")


class TaskList(BaseModel):
    """All registered tasks, by name."""

    tasks: list[TaskResponse]
