"""How many jobs there may be: of all clients, and of one."""

import pytest

from elmo_serve.errors import ClientOverShare, Overloaded
from elmo_serve.jobs.active_jobs import JobSlots, Slot
from elmo_serve.settings import Settings

SETTINGS = Settings(max_jobs=3, max_client_jobs=2)


def take(slots: JobSlots, client: str) -> Slot:
    with slots.taking(client) as slot:
        return slot


def test_a_client_and_all_clients_have_a_limit_and_room_comes_back() -> None:
    slots = JobSlots(SETTINGS, lambda: 41.2)
    first, _ = take(slots, "a"), take(slots, "a")

    with pytest.raises(ClientOverShare, match="ELMO_MAX_CLIENT_JOBS") as over:
        take(slots, "a")
    assert over.value.retry_after == 42
    take(slots, "b")
    with pytest.raises(Overloaded, match="ELMO_MAX_JOBS") as full:
        take(slots, "b")
    assert full.value.headers["Retry-After"] == "42"

    first.close()
    first.close()
    take(slots, "a")
    with pytest.raises(Overloaded):
        take(slots, "c")


def test_a_block_that_fails_gives_its_slot_back() -> None:
    slots = JobSlots(SETTINGS, lambda: 1.0)
    for _ in range(5):
        with pytest.raises(KeyError), slots.taking("a"):
            raise KeyError

    with slots.taking("a") as kept:
        pass
    take(slots, "a")
    with pytest.raises(ClientOverShare):
        take(slots, "a")
    kept.close()
    take(slots, "a")
