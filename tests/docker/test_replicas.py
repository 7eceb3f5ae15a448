"""docker-compose.replicas.yml on a real engine: three replicas, HAProxy and Prometheus."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import pytest
import yaml

from benchmarks.comparison import Request
from tests.docker.engine import ROOT, Stack, run
from tests.docker.test_compose import eventually
from tests.support.replicas import CLIENTS, Load, requests_of
from tests.support.servers import free_port, write_task

pytestmark = pytest.mark.docker

FILES = "docker-compose.yml:docker-compose.replicas.yml"
REPLICAS = 3
DEBIAN = "elmo-haproxy:test"


@pytest.fixture(scope="module")
def image(engine: None) -> str:
    """HAProxy's image; where it cannot be pulled, that of docker/haproxy/Dockerfile."""
    shown = yaml.safe_load(run("docker", "compose", "config", env={"COMPOSE_FILE": FILES}))
    name = str(shown["services"]["haproxy"]["image"])
    for question in (["image", "inspect", name], ["pull", "--quiet", name]):
        asked = subprocess.run(["docker", *question], capture_output=True, check=False)
        if asked.returncode == 0:
            return name
    run("docker", "build", "--network", "host", "--tag", DEBIAN, "docker/haproxy")
    return DEBIAN


@pytest.fixture(scope="module")
def replicas(stack: Stack, image: str) -> Iterator[Stack]:
    """Three replicas behind HAProxy, in a project of their own; the image is that of `stack`."""
    http_port, prometheus_port = free_port(), free_port()
    environment = {
        **stack.environment,
        "COMPOSE_FILE": FILES,
        "COMPOSE_PROJECT_NAME": f"{stack.environment['COMPOSE_PROJECT_NAME']}-replicas",
        "HAPROXY_IMAGE": image,
        "HTTP_PORT": str(http_port),
        "PROMETHEUS_PORT": str(prometheus_port),
    }
    with (
        httpx.Client(base_url=f"http://127.0.0.1:{http_port}", timeout=60) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{prometheus_port}") as prometheus,
    ):
        found = replace(stack, environment=environment, service=service, prometheus=prometheus)
        try:
            found.compose(
                *("up", "--no-build", "--wait", "--wait-timeout", "300"),
                *("--scale", f"elmo={REPLICAS}"),
            )
            yield found
        finally:
            print(found.compose("logs", "--timestamps", "haproxy"))  # shown when a test fails
            found.compose("down", "--volumes", "--timeout", "10")


@pytest.fixture(scope="module")
def requests(replicas: Stack) -> list[Request]:
    """The requests of the load; nothing happens to the replicas while they get their vectors."""
    return requests_of(str(replicas.service.base_url))


@pytest.fixture
def load(replicas: Stack, requests: list[Request]) -> Load:
    return Load(str(replicas.service.base_url), cycle(requests))


def containers(replicas: Stack) -> list[str]:
    return replicas.compose("ps", "--quiet", "elmo").split()


def targets(replicas: Stack) -> Counter[str]:
    """Return how many targets of each job Prometheus reaches."""
    found = replicas.prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
    return Counter(each["labels"]["job"] for each in found if each["health"] == "up")


def test_the_image_is_that_of_the_overlay(image: str) -> None:
    if image == DEBIAN:
        pytest.skip("HAProxy's image cannot be pulled: the tests below run with Debian's HAProxy")


def test_prometheus_finds_every_replica_and_the_proxy(replicas: Stack) -> None:
    wanted = Counter({"elmo": REPLICAS, "haproxy": 1, "prometheus": 1})

    assert eventually(lambda: str(targets(replicas) == wanted), "True") == "True"


def test_the_proxy_has_one_server_for_each_replica(replicas: Stack) -> None:
    assert eventually(partial(servers, replicas), str(REPLICAS)) == str(REPLICAS)


def servers(replicas: Stack) -> str:
    """Return the number of servers that the proxy uses, as it tells Prometheus."""
    query = {"query": 'haproxy_backend_active_servers{proxy="elmo"}'}
    found = replicas.prometheus.get("/api/v1/query", params=query).json()["data"]["result"]
    return " ".join(each["value"][1] for each in found)


def test_a_task_is_known_to_all_replicas(replicas: Stack) -> None:
    layers = replicas.service.get("/info").json()["layers"]
    tasks = Path(replicas.environment["TASKS"])
    write_task(tasks, "ner", weights=[0.5] * layers, gamma=2.0)

    program = (
        "import urllib.request as r;print(r.urlopen('http://127.0.0.1:8000/tasks/ner').status)"
    )
    for container in containers(replicas):
        command = ["docker", "exec", container, "python", "-c", program]
        assert eventually(partial(output, command), "200") == "200"


def output(command: list[str]) -> str:
    """Return what a command wrote, also one that failed."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def test_the_update_of_the_page_fails_no_request_under_load(replicas: Stack, load: Load) -> None:
    page = (ROOT / "docs/deploy.md").read_text()
    (update,) = re.findall(r"```sh\n(export COMPOSE_FILE.*?)```", page, re.DOTALL)
    before = set(containers(replicas))
    changed = replicas.environment | {"ELMO_KEEP_ALIVE_SECONDS": "61"}
    with load.under_way(CLIENTS):
        run("sh", "-ec", update.replace("docker compose build\n", ""), env=changed)
        load.until_answered(20)
    after = containers(replicas)
    assert len(after) == REPLICAS and not before & set(after)
    for container in after:
        assert "ELMO_KEEP_ALIVE_SECONDS=61" in run("docker", "inspect", container)


def test_fewer_and_more_replicas_are_found_under_load(replicas: Stack, load: Load) -> None:
    with load.under_way(CLIENTS):
        for count in (REPLICAS - 1, REPLICAS):
            # Without --wait: a busy machine may take longer than the start period of the image.
            scale = ("--scale", f"elmo={count}")
            replicas.compose("up", "--no-build", "--detach", "--no-recreate", *scale)
            load.until_answered(50)
            assert eventually(partial(servers, replicas), str(count)) == str(count)
            assert eventually(lambda: str(targets(replicas)["elmo"]), str(count)) == str(count)
