"""Responses of /tasks."""

from pydantic import BaseModel, ConfigDict, Field


class TaskResponse(BaseModel):
    """A registered task."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "ner",
                    "weights": [0.5, -1.0, 2.0],
                    "gamma": 1.5,
                    "layer_norm": False,
                    "description": "named entities",
                    "model": "english",
                    "revision": "3f1c9a20b7de",
                }
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
