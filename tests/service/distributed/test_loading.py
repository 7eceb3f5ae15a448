"""Loads of models: shared by all that wait, repeated after a while, never cut short by a caller."""

import asyncio

import pytest

from elmo_serve.distributed.loading import RETRY_SECONDS, LoadError, Loads
from elmo_serve.distributed.messages import LoadFault

FAULT = LoadFault("model.hdf5 is damaged")


class Loader:
    """Counts its calls, and ends each with `outcome` once its gate is open."""

    def __init__(self, outcome: str | LoadFault) -> None:
        self.outcome = outcome
        self.calls: list[str] = []
        self.is_called = asyncio.Event()
        self.gate = asyncio.Event()
        self.now = 0.0

    async def __call__(self, model: str) -> str:
        self.calls.append(model)
        self.is_called.set()
        await self.gate.wait()
        if isinstance(self.outcome, LoadFault):
            raise LoadError(self.outcome)
        return self.outcome


def loads_of(loader: Loader) -> Loads[str]:
    return Loads(loader, lambda: loader.now)


async def test_all_that_wait_share_one_attempt_and_its_fault() -> None:
    loader = Loader(FAULT)
    loads = loads_of(loader)
    waiting = [asyncio.ensure_future(loads.get("a")) for _ in range(20)]
    await loader.is_called.wait()
    loader.gate.set()

    assert await asyncio.gather(*waiting) == [FAULT] * 20
    assert loader.calls == ["a"]


async def test_a_fault_is_kept_for_a_while_and_then_tried_again() -> None:
    loader = Loader(FAULT)
    loader.gate.set()
    loads = loads_of(loader)
    found = [await loads.get("a")]
    loader.outcome = "loaded"
    loader.now = RETRY_SECONDS - 0.1
    found += [await loads.get("a"), await loads.get("b")]
    loader.now = RETRY_SECONDS

    assert [*found, await loads.get("a")] == [FAULT, FAULT, "loaded", "loaded"]
    assert loader.calls == ["a", "b", "a"]


async def test_an_attempt_outlives_the_caller_that_gives_up() -> None:
    loader = Loader("loaded")
    loads = loads_of(loader)
    first = asyncio.ensure_future(loads.get("a"))
    await loader.is_called.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(loads.get("a"))
    loader.gate.set()

    assert await second == "loaded"
    assert loader.calls == ["a"]


async def test_another_error_reaches_all_that_wait_and_is_not_kept() -> None:
    async def broken(_model: str) -> str:
        await asyncio.sleep(0)
        raise RuntimeError("a fault of the program")

    loads = Loads(broken)
    for _ in range(2):
        found = await asyncio.gather(loads.get("a"), loads.get("a"), return_exceptions=True)
        assert [type(each) for each in found] == [RuntimeError] * 2
