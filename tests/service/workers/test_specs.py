"""The workers of a model, by the settings."""

from elmo_serve.model_specs import ModelSpec
from elmo_serve.settings import Settings
from elmo_serve.workers.devices import Hardware
from elmo_serve.workers.messages import RunnerSettings, Worker
from elmo_serve.workers.shared_memory import SharedMemoryPool
from elmo_serve.workers.specs import worker_specs
from tests.support.gated_worker import GatedWorker
from tests.support.servers import SMALL


def made_with(cores: int, fault: str = "", **settings: object) -> list[RunnerSettings]:
    """Return the settings of each worker that is made for a model on the CPU."""
    made: list[RunnerSettings] = []

    def make(runner: RunnerSettings, _segments: SharedMemoryPool) -> Worker:
        made.append(runner)
        return GatedWorker()

    found = Settings.model_validate({"devices": "cpu", **settings})
    spec = ModelSpec("small", str(SMALL), fault)
    hardware = Hardware(0, cores=cores)
    for worker in worker_specs(spec, found, SharedMemoryPool(), hardware, make):
        worker.make()
    return made


def test_the_workers_of_a_share_of_a_machine_use_its_cores_alone() -> None:
    made = made_with(6, workers_per_device=2)

    assert [each.threads for each in made] == [3, 3]


def test_a_worker_has_at_least_one_thread() -> None:
    assert [each.threads for each in made_with(1, workers_per_device=2)] == [1, 1]


def test_a_model_with_a_fault_gets_no_worker() -> None:
    assert made_with(1, fault="cannot be fetched") == []
