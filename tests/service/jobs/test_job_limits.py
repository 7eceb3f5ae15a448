"""How many jobs there may be: of all clients, and of one."""

import pytest

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.jobs.job_limits import JobLimits, JobSlots

LIMITS = JobLimits(jobs=3, client_jobs=2, job_bytes=100, keep_seconds=1.0)


def test_a_client_and_all_clients_have_a_limit_and_room_comes_back() -> None:
    slots = JobSlots(LIMITS, lambda: 41.2)
    first, _ = slots.take("a"), slots.take("a")

    with pytest.raises(ClientOverShare, match="ELMO_MAX_CLIENT_JOBS") as over:
        slots.take("a")
    assert over.value.retry_after == 42
    slots.take("b")
    with pytest.raises(Overloaded, match="ELMO_MAX_JOBS") as full:
        slots.take("b")
    assert full.value.headers["Retry-After"] == "42"

    first.release()
    first.release()
    slots.take("a")
    with pytest.raises(Overloaded):
        slots.take("c")


def test_a_block_that_fails_gives_its_slot_back() -> None:
    slots = JobSlots(LIMITS, lambda: 1.0)
    for _ in range(5):
        with pytest.raises(KeyError), slots.taking("a"):
            raise KeyError

    with slots.taking("a") as kept:
        pass
    slots.take("a")
    with pytest.raises(ClientOverShare):
        slots.take("a")
    kept.release()
    slots.take("a")


def test_vectors_over_the_limit_are_refused() -> None:
    LIMITS.check_size(100)
    with pytest.raises(TooLarge, match="ELMO_MAX_JOB_BYTES"):
        LIMITS.check_size(101)
