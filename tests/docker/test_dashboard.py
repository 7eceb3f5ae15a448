"""The Grafana dashboard: each query returns data, and a bottleneck shows in its panel."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.docker.engine import ROOT
from tests.docker.test_alerts import series
from tests.support.servers import SMALL, Running, free_port, running

FOLDER = ROOT / "docker" / "grafana"
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$model": ".*"}

BOARD: dict[str, Any] = json.loads((FOLDER / "elmo-serve.json").read_text())
PANELS: dict[str, list[str]] = {
    panel["title"]: [target["expr"] for target in panel["targets"]]
    for panel in BOARD["panels"]
    if panel["type"] != "row"
}


def test_the_dashboard_can_be_imported_beside_any_prometheus() -> None:
    """A fixed uid of the data source breaks the import where it has another one."""
    (source,) = (v for v in BOARD["templating"]["list"] if v["type"] == "datasource")
    assert source["name"] == "DS_PROMETHEUS"
    for panel in BOARD["panels"]:
        for holder in (panel, *panel.get("targets", ())):
            if "datasource" in holder:
                assert holder["datasource"]["uid"] == "${DS_PROMETHEUS}"
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.mark.parametrize("title", PANELS)
def test_panels_show_metrics_that_exist(title: str) -> None:
    for query in PANELS[title]:
        used = set(re.findall(r"\belmo_\w+", query))
        assert used
        assert used - series() - {"elmo_process_cpu_seconds_total"} == set()  # a counter's sample


def test_the_runbook_names_the_panel_of_each_bottleneck() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    (section,) = re.findall(r"^### Which panel shows what$(.*?)^##", text, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"\*([A-Z][^*]+)\*", section))
    assert named
    assert named <= PANELS.keys()


def test_compose_gives_grafana_the_dashboard_and_prometheus() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    grafana = compose["grafana"]
    assert grafana["profiles"] == ["dashboard"]
    paths = {volume.split(":")[0]: volume.split(":")[1] for volume in grafana["volumes"]}
    (provider,) = yaml.safe_load(
        (FOLDER / "provisioning" / "dashboards" / "elmo-serve.yml").read_text()
    )["providers"]
    board = Path(paths["./docker/grafana/elmo-serve.json"])
    assert str(board.parent) == provider["options"]["path"]
    (source,) = yaml.safe_load(
        (FOLDER / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    assert httpx.URL(source["url"]).host in compose


@contextmanager
def loaded(server: Running, *options: str) -> Iterator[None]:
    """Let the load generator send requests while the block runs."""
    command = [sys.executable, "-m", "benchmarks.load", server.url, *options, "--seconds", "300"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def scraped(folder: Path, server: Running) -> Iterator[httpx.Client]:
    """Let a real Prometheus scrape the server each second; yield its client, or skip."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    config = yaml.safe_load((ROOT / "docker" / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config["rule_files"] = [str(ROOT / "docker" / "prometheus" / "alerts.yml")]
    config["scrape_configs"] = [
        {
            "job_name": "elmo",
            "static_configs": [{"targets": [httpx.URL(server.url).netloc.decode()]}],
        }
    ]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
    )
    url = f"http://127.0.0.1:{port}"
    try:
        server.until(lambda: _is_ready(url))
        with httpx.Client(base_url=url, timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url + "/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def result(prometheus: httpx.Client, query: str) -> list[Any]:
    """Return the samples of a query of the dashboard now, with its variables filled in."""
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    answer = prometheus.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    found: list[Any] = answer["data"]["result"]
    return found


@pytest.mark.long
def test_every_query_returns_data_after_a_load(tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL) as server, scraped(tmp_path, server) as prometheus:

        def empty() -> set[str]:
            queries = {query for panel in PANELS.values() for query in panel}
            return {query for query in queries if not result(prometheus, query)}

        with loaded(server, "--clients", "4"):
            server.until(lambda: not empty())
            assert not empty()
