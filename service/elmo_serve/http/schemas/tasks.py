"""Responses of /tasks."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TaskFit(BaseModel):
    """How `elmo fit` scored a task."""

    measure: Literal["accuracy", "span_f1"]


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
                    "fit": {"measure": "span_f1"},
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
    fit: TaskFit | None = Field(
        None, description="Of files of `elmo fit`; absent where the file names no measure."
    )


class TaskList(BaseModel):
    """All registered tasks, by name."""

    tasks: list[TaskResponse]
