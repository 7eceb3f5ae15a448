"""One job as a value, and as the JSON file that every server of the folder reads.

A task has one job at most that has not ended.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from elmo_serve.errors import Conflict

State = Literal["queued", "running", "done", "failed", "cancelled"]

ENDED: Final[tuple[State, ...]] = ("done", "failed", "cancelled")

JOB_ID: Final = re.compile(r"[0-9a-f]{16}")

_FORMAT: Final = 1
"""Of the file; a file of a later format is not read."""


@dataclass(frozen=True, slots=True)
class Job:
    """A fit of the task `name`, as clients see it.

    `progress` goes from 0 to 1. `scores` grows while the job runs. `task` is there when it is done,
    `reason` when it failed. `owner` is the server that runs it. Times are seconds since the epoch.
    """

    id: str
    name: str
    model: str
    kind: str
    owner: str
    created_at: float
    examples: int = 0
    tokens: int = 0
    state: State = "queued"
    progress: float = 0.0
    scores: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] | None = None
    reason: str | None = None
    ended_at: float | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing about the job will change."""
        return self.state in ENDED


def encode(job: Job) -> bytes:
    """Return the content of the job's file."""
    return json.dumps({"format": _FORMAT, **asdict(job)}, indent=2).encode() + b"\n"


def decode(data: bytes) -> Job:
    """Read a job's file. Raises ValueError where it is none."""
    try:
        members = json.loads(data)
        if members.pop("format") != _FORMAT:
            raise ValueError("its format is not known")
        job = Job(**members)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is no job: {error}") from error
    if not isinstance(job.id, str) or not JOB_ID.fullmatch(job.id):
        raise ValueError("its id is none")
    return job


def refuse_twin(name: str, jobs: Iterable[Job]) -> None:
    """Raise Conflict where one of the jobs fits a task of this name and has not ended.

    Names that differ in case alone are one: the task registry keeps only one of them.
    """
    for job in jobs:
        if job.name.casefold() == name.casefold() and not job.has_ended:
            raise Conflict(
                f"Job {job.id} fits task {job.name!r} already; it is {job.state}. "
                f"DELETE /jobs/{job.id} cancels it."
            )
