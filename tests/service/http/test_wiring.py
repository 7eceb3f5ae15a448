"""The parts of a server: workers by model and device, limits, gauges."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from elmo_serve.errors import TooLarge
from elmo_serve.http.state import Server, assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.settings import Settings
from elmo_serve.workers.messages import RunnerSettings
from tests.support.checkpoints import write_pair
from tests.support.gated_worker import GatedWorker
from tests.support.servers import SMALL


async def started(**settings: Any) -> tuple[Server, list[RunnerSettings]]:
    """Start a server without models; return it and the settings of each worker."""
    made: list[RunnerSettings] = []

    def make(runner: RunnerSettings, _arena: Arena) -> GatedWorker:
        made.append(runner)
        return GatedWorker()

    server = assemble(Settings(devices=("cpu",), **settings), make)
    server.engine.start()
    return server, made


async def test_each_model_has_workers_of_its_own(tmp_path: Path) -> None:
    other = write_pair(tmp_path / "other")

    server, made = await started(models=f"{SMALL},b={other}", precision="float32,b=int8")

    assert [model.name for model in server.models] == ["small", "b"]
    assert [(each.model, each.precision) for each in made] == [
        (str(SMALL), "float32"),
        (str(other), "int8"),
    ]
    await server.engine.stop()


async def test_limits_of_the_settings_reach_the_parts() -> None:
    limits = {"max_queue_tokens": 12_345, "max_body_bytes": 1 << 20}

    server, _ = await started(model=str(SMALL), **limits)

    assert server.bodies.limit == 1 << 24
    with pytest.raises(TooLarge, match="12345"):
        server.engine.admission.admit(12_348, 60.0)
    await server.engine.stop()


async def test_gauges_are_read_when_the_metrics_are_asked_for() -> None:
    server, _ = await started(model=str(SMALL))

    def gauge(name: str) -> float:
        families = text_string_to_metric_families(
            generate_latest(server.metrics.snapshot()).decode()
        )
        return sum(each.value for f in families for each in f.samples if each.name == name)

    assert gauge("elmo_receiving_bytes") == 0
    server.bodies.hold("me", 1_000)
    assert gauge("elmo_receiving_bytes") == 1_000
    assert gauge("elmo_queue_sentences") == gauge("elmo_queue_tokens") == 0
    hold = server.engine.answers.hold("me", 77)
    assert gauge("elmo_answer_bytes") == 77
    hold.release()
    await server.engine.stop()
