"""ELMO_DEVICES=auto on machines with several GPUs: workers that report what such devices report.

The workers are fakes; no part of these tests has run on a GPU.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from elmo_serve.http.app import create_app
from elmo_serve.http.state import Server, assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.slot import MAX_FAILED_STARTS
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import Batch, LoadFailed, Message, RunnerSettings
from elmo_serve.workers.pool import WorkerSlot
from tests.support.engines import until
from tests.support.gated_worker import GatedWorker
from tests.support.in_process import helpers_here
from tests.support.servers import SMALL
from tests.support.virtual_time import in_virtual_time

NO_MEMORY = "cuda:1, float32: CUDA out of memory"


@dataclass(eq=False)
class GpuWorker(GatedWorker):
    """A worker on a GPU, which may be unable to start, with a reason."""

    fault: str = ""

    def start(self, on_message: Callable[[Message], None], on_exit: Callable[[str], None]) -> None:
        self.loads = not self.fault
        super().start(on_message, on_exit)
        if self.fault:
            on_message(LoadFailed(self.fault))
            self.die("exited with status 0")


@dataclass
class Machine:
    """The workers of a server by device, the newest last, and the faults of its GPUs."""

    faults: dict[str, str]
    workers: dict[str, list[GpuWorker]] = field(default_factory=dict)
    runners: list[RunnerSettings] = field(default_factory=list)

    def make(self, runner: RunnerSettings, _arena: Arena) -> GpuWorker:
        self.runners.append(runner)
        worker = GpuWorker(fault=self.faults.get(runner.device, ""))
        self.workers.setdefault(runner.device, []).append(worker)
        return worker

    def computed(self, device: str) -> list[Batch]:
        """Return the batches that have begun on a device."""
        return [batch for worker in self.workers.get(device, ()) for batch in worker.batches]


def slots_of(server: Server) -> list[WorkerSlot]:
    """Return the places of the workers of the first model."""
    return server.models.first.pool.slots


@asynccontextmanager
async def serving(
    hardware: Hardware, faults: dict[str, str] | None = None, **settings: object
) -> AsyncIterator[tuple[Machine, Server, httpx.AsyncClient]]:
    """Serve with fake workers on that hardware, until each model is loaded or has failed."""
    machine = Machine(faults if faults is not None else {})
    given = Settings.model_validate({"model": str(SMALL), **settings})
    server = assemble(given, machine.make, hardware=hardware)
    server.helpers = helpers_here()  # in virtual time a process would be left behind
    app = create_app(server)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        await until(lambda: all(model.state != "loading" for model in server.models))
        yield machine, server, client


async def embed(client: httpx.AsyncClient, word: str) -> int:
    response = await client.post("/embed", json={"sentences": [[word]], "layers": "top"})
    return response.status_code


async def metric(client: httpx.AsyncClient, line: str) -> float:
    text = (await client.get("/metrics")).text
    return sum(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))


async def test_every_gpu_has_its_workers() -> None:
    async with serving(Hardware(4), workers_per_device=2) as (machine, server, client):
        gpus = [f"cuda:{index}" for index in range(4)]

        assert (await client.get("/info")).json()["devices"] == [g for g in gpus for _ in "12"]
        await until(lambda: all(slot.is_ready for slot in slots_of(server)))
        assert {runner.device for runner in machine.runners} == set(gpus)
        assert {runner.torch_device for runner in machine.runners} == set(gpus)
        assert {runner.threads for runner in machine.runners} == {1}


async def test_each_mig_slice_has_a_worker_that_sees_this_slice_alone() -> None:
    async with serving(Hardware(1, "MIG-a,MIG-b")) as (machine, _, client):
        assert (await client.get("/info")).json()["devices"] == ["cuda:0", "cuda:1"]
        placed = [(each.device, each.cuda_slice, each.torch_device) for each in machine.runners]
        assert placed == [("cuda:0", "MIG-a", "cuda:0"), ("cuda:1", "MIG-b", "cuda:0")]


async def test_a_gpu_that_fails_at_the_start_leaves_the_work_to_the_others() -> None:
    faults = {"cuda:1": NO_MEMORY}
    async with serving(Hardware(2), faults) as (machine, server, client):
        await until(lambda: len(machine.workers["cuda:1"]) > 1)  # it is tried again

        assert (await client.get("/health/ready")).json() == {"status": "ready"}
        assert (await client.get("/health/live")).status_code == 200
        assert await embed(client, "a") == 200
        assert len(machine.computed("cuda:0")) == 1 and not machine.computed("cuda:1")
        failed = slots_of(server)[1]
        assert failed.start_failure == NO_MEMORY
        assert await metric(client, 'elmo_worker_restarts_total{device="cuda:1"') >= 1
        assert await metric(client, 'elmo_worker_up{device="cuda:1"') == 0

        faults.clear()  # another program has freed the memory
        await until(lambda: failed.state == "ready")
        assert await metric(client, "elmo_worker_up{") == 2


@in_virtual_time
async def test_a_gpu_that_never_starts_is_tried_again_rarely() -> None:
    async with serving(Hardware(2), {"cuda:1": NO_MEMORY}) as (machine, _, client):
        await asyncio.sleep(3600)
        tried = len(machine.workers["cuda:1"])
        assert MAX_FAILED_STARTS < tried <= MAX_FAILED_STARTS + 12  # every five minutes
        assert await embed(client, "a") == 200


async def test_where_every_gpu_fails_the_reason_is_the_end_of_the_server() -> None:
    faults = {"cuda:0": "cuda:0, float32: no kernel image", "cuda:1": NO_MEMORY}
    async with serving(Hardware(2), faults) as (_, server, client):
        await until(server.readiness.failed.is_set)

        assert server.readiness.reason == f"small: {faults['cuda:0']}"
        for path in ("/health/ready", "/health/live"):
            answer = await client.get(path)
            assert answer.status_code == 503 or path != "/health/ready"
            assert "cuda" not in answer.text  # the probes are open: the reason is in the log


async def test_a_gpu_that_is_lost_loses_no_request() -> None:
    faults: dict[str, str] = {}
    async with serving(Hardware(2), faults) as (machine, server, client):
        workers = {device: each[0] for device, each in machine.workers.items()}
        for worker in workers.values():
            worker.close()
        answer = asyncio.ensure_future(client.post("/embed", json={"sentences": [["a"]]}))
        await until(lambda: any(worker.queue for worker in workers.values()))
        (lost,) = (device for device, worker in workers.items() if worker.queue)
        (other,) = workers.keys() - {lost}
        faults[lost] = f"{lost}, float32: CUDA error: device is lost"

        workers[lost].die("exited with status 1")  # as `DeviceLostError` ends it
        workers[other].open()

        assert (await answer).status_code == 200
        slot = next(each for each in slots_of(server) if each.labels["device"] == lost)
        await until(lambda: slot.failed_starts > 0)
        assert (await client.get("/health/ready")).status_code == 200
        assert await embed(client, "b") == 200
        assert await metric(client, f'elmo_worker_restarts_total{{device="{lost}"') >= 1


async def test_when_the_last_gpu_is_lost_requests_are_refused_until_it_is_back() -> None:
    faults: dict[str, str] = {}
    async with serving(Hardware(1), faults) as (machine, server, client):
        slot = slots_of(server)[0]
        faults["cuda:0"] = "cuda:0, float32: CUDA error: device is lost"
        machine.workers["cuda:0"][0].die("exited with status 1")
        await until(lambda: slot.failed_starts > 0)

        assert await embed(client, "a") == 503
        ready = await client.get("/health/ready")
        assert ready.status_code == 503
        assert "lost its workers" in ready.json()["detail"]
        assert "cuda:0" in (await client.get("/info")).json()["models"][0]["reason"]
        assert (await client.get("/health/live")).status_code == 200

        faults.clear()
        await until(lambda: slot.state == "ready")
        assert await embed(client, "a") == 200
