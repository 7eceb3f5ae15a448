"""A real Prometheus that scrapes a server, and the queries of the dashboard.

with scraped(folder, server) as prometheus:
    prometheus.value("elmo_queue_tokens")
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.servers import Running, free_port

_DOCKER = Path(__file__).parents[2] / "docker"
_VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$model": ".*"}

BOARD: dict[str, Any] = json.loads((_DOCKER / "grafana" / "elmo-serve.json").read_text())
PANELS: dict[str, list[str]] = {
    panel["title"]: [target["expr"] for target in panel["targets"]]
    for panel in BOARD["panels"]
    if panel["type"] != "row"
}


class Prometheus:
    """A Prometheus that scrapes one server each second."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def value(self, query: str) -> list[float]:
        """Return the numbers of a query of the dashboard now, with its variables filled in."""
        return [float(sample["value"][1]) for sample in self._ask("query", query)]

    def _ask(self, route: str, query: str, **more: str) -> list[Any]:
        for variable, value in _VARIABLES.items():
            query = query.replace(variable, value)
        answer = self._client.get(f"/api/v1/{route}", params={"query": query, **more}).json()
        assert answer["status"] == "success", (query, answer)
        found: list[Any] = answer["data"]["result"]
        return found


@contextmanager
def scraped(folder: Path, server: Running) -> Iterator[Prometheus]:
    """Let a real Prometheus scrape the server each second; skip where there is none."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    config = yaml.safe_load((_DOCKER / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config["rule_files"] = [str(_DOCKER / "prometheus" / "alerts.yml")]
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
            yield Prometheus(client)
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url + "/-/ready").status_code == 200
    except httpx.TransportError:
        return False
