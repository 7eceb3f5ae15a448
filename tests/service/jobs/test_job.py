"""A job as a file: what is written is read back, and anything else is refused."""

from dataclasses import replace

import pytest

from elmo_serve.errors import Conflict
from elmo_serve.jobs.store import ENDED, Job, State, decode, encode, refuse_duplicate

JOB = Job("0123456789abcdef", "ner", "english", "token", "owner", 1.5, examples=3, tokens=4)


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, state="failed", reason="Grüße", ended_at=2.5, progress=0.25),
        replace(JOB, state="done", task={"weights": [0.1, 1e-45]}, scores={"mixtures": {}}),
    ],
)
def test_a_job_is_read_back(job: Job) -> None:
    assert decode(encode(job)) == job


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        encode(JOB).replace(b'"format": 1', b'"format": 2'),
        encode(JOB).replace(b'"owner"', b'"master"'),
        encode(JOB).replace(b"0123456789abcdef", b"../../etc/passwd"),
    ],
)
def test_anything_else_is_no_job(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no job|its id|its format|Expecting"):
        decode(data)


def test_only_the_last_states_have_ended() -> None:
    assert not JOB.has_ended
    assert replace(JOB, state="cancelled").has_ended


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_has_not_ended_refuses_another_of_its_task(state: State) -> None:
    with pytest.raises(Conflict, match=f"{JOB.id} fits task 'ner' already; it is {state}"):
        refuse_duplicate("ner", [replace(JOB, name="pos"), replace(JOB, state=state)])


def test_a_job_whose_task_differs_in_case_alone_is_one_of_its_task() -> None:
    """The registry refuses such a task, so that the second fit would be computed for nothing."""
    with pytest.raises(Conflict, match=f"{JOB.id} fits task 'ner' already"):
        refuse_duplicate("NER", [JOB])


def test_ended_jobs_and_jobs_of_other_tasks_are_no_reason() -> None:
    refuse_duplicate("ner", [replace(JOB, state=state) for state in ENDED])
    refuse_duplicate("ner", [replace(JOB, name="pos")])
