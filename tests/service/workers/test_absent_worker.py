"""The worker of a model that cannot be had: it fails its start and ends."""

import asyncio

from elmo_serve.workers.absent_worker import AbsentWorker
from elmo_serve.workers.messages import LoadFailed


async def test_it_reports_the_reason_and_then_its_end() -> None:
    reports: list[object] = []
    worker = AbsentWorker("no such file")

    worker.start(reports.append, reports.append)
    assert reports == [], "the slot has not finished its own bookkeeping"
    await asyncio.sleep(0)

    assert reports == [LoadFailed("no such file"), "ended"]
    worker.kill()
    await worker.stop()
    assert len(reports) == 2
