"""A Docker engine, and the compose file's services running on it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.docker.engine import (
    PROMETHEUS,
    ROOT,
    Stack,
    has_engine,
    run,
    wheels_for_builds,
)
from tests.support.servers import free_port


@pytest.fixture(scope="session")
def engine() -> None:
    if not has_engine():
        pytest.skip("no Docker engine with Compose answers")


@pytest.fixture(scope="session")
def promtool(request: pytest.FixtureRequest) -> Callable[..., str]:
    """promtool beside docker/prometheus: the one on the PATH, or that of Compose's Prometheus."""
    folder = ROOT / "docker" / "prometheus"
    command = ["promtool"]
    if shutil.which("promtool") is None:
        request.getfixturevalue("engine")
        mount = ("--volume", f"{folder}:/etc/prometheus:ro", "--workdir", "/etc/prometheus")
        command = ["docker", "run", "--rm", "--interactive", *mount]
        command += ["--entrypoint", "promtool", PROMETHEUS]

    def call(*arguments: str, text: str | None = None) -> str:
        return run(*command, *arguments, text=text, folder=folder)

    return call


@pytest.fixture(scope="session")
def stack(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    http_port, prometheus_port = free_port(), free_port()
    tasks = tmp_path_factory.mktemp("tasks")
    tasks.chmod(0o755)  # user 10001 of the container reads it
    environment = {
        # The settings of whoever runs the tests do not reach the service.
        **{name: "" for name in os.environ if name.startswith("ELMO_")},
        "COMPOSE_PROJECT_NAME": f"elmo-test-{os.getpid()}",
        "ELMO_IMAGE": "elmo-serve:test",
        "HTTP_ADDRESS": "127.0.0.1",
        "HTTP_PORT": str(http_port),
        "PROMETHEUS_PORT": str(prometheus_port),
        "TASKS": str(tasks),
    }
    with (
        wheels_for_builds() as wheels,
        httpx.Client(base_url=f"http://127.0.0.1:{http_port}") as service,
        httpx.Client(base_url=f"http://127.0.0.1:{prometheus_port}") as prometheus,
    ):
        stack = Stack({**environment, **wheels}, service, prometheus)
        try:
            stack.compose("up", "--build", "--wait", "--wait-timeout", "300")
            yield stack
        finally:
            stack.compose("down", "--volumes", "--timeout", "10")
