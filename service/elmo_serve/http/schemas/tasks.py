"""Schemas of registered tasks and of jobs that fit them."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from elmo_serve.tasks.schema import TASK_EXAMPLE

_SCORES: Final = {"mean": 0.91, "spread": 0.004, "weights": [0.2, 0.5, 0.3], "accuracy": 0.91}
_JOB_EXAMPLE: Final[dict[str, Any]] = {
    "id": "0f9c2a7e51d84c0b",
    "name": "ner",
    "model": "english",
    "kind": "token",
    "state": "running",
    "progress": 0.6,
    "examples": 5000,
    "tokens": 5000,
    "scores": {"mixtures": {"learned": _SCORES}},
    "task": None,
    "reason": None,
    "created_at": 1760000000.0,
    "ended_at": None,
}


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


class JobResponse(BaseModel):
    """A fit of a task: where it is, and what it has found."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB_EXAMPLE]})

    id: str
    name: str = Field(description="The task that is fitted.")
    model: str
    kind: Literal["token", "sentence", "pair"]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float = Field(description="From 0 to 1.")
    examples: int = Field(description="Labels, those of the test part included.")
    tokens: int
    scores: dict[str, Any] = Field(
        description="`mixtures` has one entry for each mixture that is fitted so far: the learned "
        "one, the average, the sum, every layer and the top one. `mean` and `spread` are over the "
        "seeds, `weights` are normalised. `scored_on` is `test` or `validation`, "
        "`scored_examples` their number; `measure` names the score that `mean` is of."
    )
    task: TaskResponse | None = Field(description="The task, when the job is done.")
    reason: str | None = Field(description="Why the job failed.")
    created_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="Seconds since 1970, when the job has ended.")


class JobList(BaseModel):
    """The jobs that are kept, the newest first."""

    jobs: list[JobResponse]
