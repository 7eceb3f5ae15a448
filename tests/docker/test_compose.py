"""The compose files, and the services of `docker compose up --build --wait` on a real engine."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from elmo_serve.settings import Settings, variable
from tests.docker.engine import PROMETHEUS, ROOT, Stack, has_compose, run
from tests.docker.test_alerts import RULES

SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
_REPLICAS = (ROOT / "docker-compose.replicas.yml").read_text().replace("!reset", "")
PROXY = {"haproxy": yaml.safe_load(_REPLICAS)["services"]["haproxy"]}
SENTENCES = [["The", "cat", "sat", "."], [], ["account", "at", "the", "bank"]]


def test_every_setting_and_nothing_else_reaches_the_service() -> None:
    given = {name for name in SERVICES["elmo"]["environment"] if name.startswith("ELMO_")}
    assert given == {variable(name) for name in Settings.model_fields}


def test_every_variable_of_traces_that_is_documented_reaches_the_service() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    refused = {"OTEL_EXPORTER_OTLP_PROTOCOL"}  # only to say that gRPC is not spoken

    assert set(re.findall(r"OTEL_\w+", text)) - refused <= SERVICES["elmo"]["environment"].keys()


def test_the_grace_period_exceeds_twice_the_drain_timeout() -> None:
    (seconds,) = re.findall(r":-(\d+)s}", SERVICES["elmo"]["stop_grace_period"])
    assert int(seconds) > 2 * Settings.model_fields["drain_timeout_seconds"].default


def test_services_run_without_privileges_and_are_published_to_this_host_alone() -> None:
    for name, service in {**SERVICES, **PROXY}.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "cap_add"} & service.keys(), name
        assert all(re.match(r"\$\{\w+:-127\.0\.0\.1\}:", port) for port in service["ports"]), name
    assert SERVICES["prometheus"]["image"] == PROMETHEUS


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ((), set()),
        (("--file", "docker-compose.yml", "--file", "docker-compose.gpu.yml"), set()),
        (("--file", "docker-compose.yml", "--file", "docker-compose.replicas.yml"), {"haproxy"}),
        (("--profile", "dashboard"), {"grafana"}),
    ],
    ids=["cpu", "gpu", "replicas", "dashboard"],
)
def test_compose_accepts_its_files(options: tuple[str, ...], more: set[str]) -> None:
    if not has_compose():
        pytest.skip("Docker Compose is not installed")
    shown = yaml.safe_load(run("docker", "compose", *options, "config"))
    assert shown["services"].keys() == {"elmo", "prometheus"} | more


@pytest.mark.docker
def test_a_sentence_goes_in_and_vectors_come_out(stack: Stack) -> None:
    answer = stack.service.post("/embed", json={"sentences": SENTENCES, "layers": "top"})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [len(vectors) for vectors in body["embeddings"]] == [4, 0, 4]
    assert {len(row) for vectors in body["embeddings"] for row in vectors} == {body["dimension"]}


@pytest.mark.docker
def test_a_file_of_keys_here_may_be_replaced(stack: Stack, tmp_path: Path) -> None:
    """Editors and `sed -i` write a new file and rename it, which a mounted file would not see."""
    tmp_path.chmod(0o755)  # user 10001 of the container reads it
    (tmp_path / "keys.txt").write_text("leaked\n")
    own = {"ELMO_API_KEYS_DIR": str(tmp_path), "ELMO_API_KEYS_FILE": "keys.txt"}
    command = ("docker", "compose", "run", "--rm", "--no-deps", "--detach")
    asleep = ("--entrypoint", "sleep", "elmo", "infinity")
    container = run(*command, *asleep, env=stack.environment | own).strip()

    def keys() -> str:
        return run("docker", "exec", container, "sh", "-c", "cat $ELMO_API_KEYS_FILE")

    try:
        assert keys() == "leaked\n"
        (tmp_path / "new").write_text("ann: k3Zr0v\n")
        (tmp_path / "new").rename(tmp_path / "keys.txt")
        assert keys() == "ann: k3Zr0v\n"
    finally:
        run("docker", "rm", "--force", container)


@pytest.mark.docker
def test_prometheus_reaches_the_service_and_knows_the_alerts(stack: Stack) -> None:
    def health() -> str:
        """Return the state of the target; Prometheus is ready before it has loaded its targets."""
        found = stack.prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
        states = [f"{t['health']} {t['lastError']}" for t in found if t["labels"]["job"] == "elmo"]
        return " ".join(states).strip()

    assert eventually(health, "up") == "up"
    groups = stack.prometheus.get("/api/v1/rules").json()["data"]["groups"]
    states = {rule["name"]: (rule["health"], rule["state"]) for rule in groups[0]["rules"]}
    assert states.keys() == {rule["alert"] for rule in RULES}
    assert {name for name, (_, state) in states.items() if state == "firing"} == set()


@pytest.mark.docker
def test_promtool_accepts_the_metrics(stack: Stack, promtool: Callable[..., str]) -> None:
    stack.service.post("/embed", json={"sentences": SENTENCES}).raise_for_status()
    assert promtool("check", "metrics", text=stack.service.get("/metrics").text) == ""


@pytest.mark.docker
def test_processes_have_no_capabilities(stack: Stack) -> None:
    statuses = stack.compose("exec", "-T", "elmo", "sh", "-c", "cat /proc/[0-9]*/status")
    processes = [
        dict(line.split(":\t", 1) for line in f"Name:{part}".splitlines() if ":\t" in line)
        for part in statuses.split("Name:")[1:]
    ]
    assert "elmo" in {status["Name"] for status in processes}
    for status in processes:
        assert (set(status["Uid"].split()), set(status["Gid"].split())) == ({"10001"}, {"0"})
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"


@pytest.mark.docker
@pytest.mark.parametrize(
    ("folder", "outcome"),
    [
        ("/opt/elmo", "Errno 30"),
        ("/models", "Errno 30"),
        ("/tmp", "written"),
        ("/tasks", "Errno 30"),
        ("/cache", "written"),
    ],
)
def test_only_tmp_and_the_cache_are_writable(stack: Stack, folder: str, outcome: str) -> None:
    program = f"""
import tempfile
try:
    with tempfile.TemporaryFile(dir={folder!r}):
        print("written")
except OSError as error:
    print(error)
"""
    assert outcome in stack.compose("exec", "-T", "elmo", "python", "-c", program)


@pytest.mark.docker
def test_a_stopped_service_exits_with_zero(stack: Stack) -> None:
    stack.compose("stop", "elmo")
    state = inspect(stack.container())
    stack.compose("up", "--wait", "--no-recreate", "elmo")

    # A drain that exceeds its timeout ends with 1, one that exceeds the grace period with 137.
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)


@pytest.mark.docker
@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0])
def test_a_stop_during_the_start_ends_the_container(stack: Stack, seconds: float) -> None:
    assert SERVICES["elmo"]["init"] is True
    image = stack.environment["ELMO_IMAGE"]
    container = run("docker", "run", "--detach", "--init", image).strip()
    try:
        time.sleep(seconds)
        run("docker", "stop", "--time", "20", container)
        state = inspect(container)
    finally:
        run("docker", "rm", "--force", container)
    assert state["ExitCode"] in (0, 128 + signal.SIGTERM)


@pytest.mark.docker
def test_the_image_has_labels_and_the_exporter_of_traces(stack: Stack) -> None:
    image = stack.environment["ELMO_IMAGE"]
    (found,) = json.loads(run("docker", "image", "inspect", image))
    labels = {name.rpartition(".")[2]: text for name, text in found["Config"]["Labels"].items()}
    assert (labels["title"], labels["licenses"]) == ("elmo-serve", "Apache-2.0")
    assert labels.keys() >= {"version", "revision", "created", "source", "name"}
    program = "import opentelemetry.exporter.otlp.proto.http.trace_exporter"
    run("docker", "run", "--rm", "--entrypoint", "python", image, "-c", program)


@pytest.mark.docker
@pytest.mark.parametrize("user", ["10001:0", "1000660000:0"])
def test_the_image_alone_serves_a_mounted_checkpoint_as_process_one(
    stack: Stack, user: str
) -> None:
    """OpenShift runs an image as any user of group 0."""
    folder = ROOT / "tests" / "golden" / "allennlp" / "small"
    image = stack.environment["ELMO_IMAGE"]
    container = run(
        *("docker", "run", "--detach", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"),
        *("--user", user, "--volume", f"{folder}:/models:ro", "--env", "ELMO_MODEL=/models", image),
    ).strip()

    def health() -> str:
        return str(inspect(container)["Health"]["Status"])

    try:
        assert eventually(health, "healthy") == "healthy"
        program = (
            "import urllib.request as r;"
            "print(r.urlopen('http://127.0.0.1:8000/info').read().decode())"
        )
        info = json.loads(run("docker", "exec", container, "python", "-c", program))
        first = run("docker", "exec", container, "cat", "/proc/1/comm").strip()
        run("docker", "stop", container)
        state = inspect(container)
    finally:
        run("docker", "rm", "--force", container)
    options = json.loads((folder / "options.json").read_text())
    assert info["dimension"] == 2 * options["lstm"]["projection_dim"]
    assert (first, state["ExitCode"]) == ("elmo", 0)


def inspect(container: str) -> dict[str, Any]:
    """Return the state of a container, its exit code and health among it."""
    (found,) = json.loads(run("docker", "inspect", container))
    return dict(found["State"])


def eventually(ask: Callable[[], str], wanted: str, seconds: float = 300) -> str:
    """Repeat a question until its answer is the wanted one; return the last answer."""
    end = time.monotonic() + seconds
    while (answer := ask()) != wanted and time.monotonic() < end:
        time.sleep(0.5)
    return answer
