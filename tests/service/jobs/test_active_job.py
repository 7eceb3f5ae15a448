"""A task has one job at most that has not ended."""

from dataclasses import replace

import pytest

from elmo_serve.errors import Conflict
from elmo_serve.jobs.active_job import refuse_twin
from elmo_serve.jobs.job import ENDED, Job, State

JOB = Job("0" * 16, "ner", "english", "token", "owner", 0.0)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_has_not_ended_refuses_another_of_its_task(state: State) -> None:
    with pytest.raises(Conflict, match=f"{JOB.id} fits task 'ner' already; it is {state}"):
        refuse_twin("ner", [replace(JOB, name="pos"), replace(JOB, state=state)])


def test_ended_jobs_and_jobs_of_other_tasks_are_no_reason() -> None:
    refuse_twin("ner", [replace(JOB, state=state) for state in ENDED])
    refuse_twin("ner", [replace(JOB, name="pos")])
