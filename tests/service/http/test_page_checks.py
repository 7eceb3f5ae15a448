"""Web pages use no server that their readers can reach, unless it allows them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from elmo_serve.errors import Forbidden
from elmo_serve.http.app import create_app
from elmo_serve.http.checks import host_check
from elmo_serve.http.state import assemble
from elmo_serve.settings import Settings
from tests.support.http_messages import connected, http_scope, read, statuses
from tests.support.servers import SMALL, Running, free_port

HERE = "https://example.org:8443"
"""An allowed origin."""

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:8000", "192.0.2.7:80"),
        *("localhost", "LOCALHOST:8000", "localhost.", "a.localhost:8000", "elmo:8000"),
        *("example.org", "Example.ORG:8443", ""),
    ],
)
def test_hosts_that_nobody_else_owns_are_answered(host: str) -> None:
    host_check((HERE,))(http_scope(host=host))
    host_check(())(http_scope())


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.", "1.2"],
)
def test_other_names_are_refused(host: str) -> None:
    with pytest.raises(Forbidden):
        host_check((HERE,))(http_scope(host=host))
    host_check(("*",))(http_scope(host=host))


@pytest.mark.parametrize(
    ("settings", "is_local"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "0.0.0.0", "published_address": "127.0.0.1"}, True),
        ({"host": "0.0.0.0", "published_address": "[::1]"}, True),
        ({"host": "0.0.0.0", "published_address": "0.0.0.0"}, False),
        ({"host": "elmo.example.org"}, False),
    ],
)
def test_a_server_is_local_by_where_it_listens_or_is_published(
    settings: dict[str, str], is_local: bool
) -> None:
    assert Settings.model_validate(settings).is_local == is_local


@pytest.mark.parametrize(
    ("keys", "is_local", "status"), [("", True, 403), ("key", True, 401), ("", False, 200)]
)
async def test_names_are_checked_where_only_the_address_protects(
    keys: str, is_local: bool, status: int
) -> None:
    settings = Settings.model_validate({"model": str(SMALL)} | ({"api_keys": keys} if keys else {}))
    transport = httpx.ASGITransport(create_app(assemble(settings), is_local=is_local))
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        assert (await client.get("/v1/models")).status_code == status


def test_dns_rebinding_reaches_no_route_and_probes_do(server: Running) -> None:
    port = server.url.rpartition(":")[2]
    rebound = {
        "Host": f"evil.example:{port}",
        "Origin": f"http://evil.example:{port}",
        "Sec-Fetch-Site": "same-origin",
    }
    answer = httpx.post(f"{server.url}/embed", headers=rebound, json={"sentences": [["a"]]})
    assert answer.status_code == 403
    assert answer.json()["type"].endswith("forbidden")

    done = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "docker" / "healthcheck.py"],
        env={"ELMO_PORT": port},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    with connected(server) as connection:  # HAProxy's httpchk
        connection.sendall(b"GET /health/ready HTTP/1.0\r\n\r\n")
        assert statuses(read(connection)) == [200]


def _block(kind: str) -> str:
    document = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"```{kind}\n(.*?)```", document, re.DOTALL)
    return str(text)


def _nginx(port: int, server: str, folder: Path) -> list[str]:
    text = _block("nginx")
    text = re.sub(r" *ssl_certificate.*\n", "", text).replace("443 ssl", f"127.0.0.1:{port}")
    config = folder / "nginx.conf"
    paths = "".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {paths}\n{text.replace('127.0.0.1:8000', server)} }}\n"
    )
    return ["nginx", "-c", str(config), "-p", str(folder)]


def _caddy(port: int, server: str, folder: Path) -> list[str]:
    text = _block("Caddyfile")
    config = folder / "Caddyfile"
    text = text.replace("elmo.example.org {", f"http://:{port} {{\nbind 127.0.0.1")
    config.write_text("{\nadmin off\n}\n" + text.replace("127.0.0.1:8000", server))
    return ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]


@contextmanager
def proxied(folder: Path, command: list[str], port: int) -> Iterator[str]:
    environment = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "PATH": "/usr/sbin:/usr/bin"}
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
            client.get(f"http://127.0.0.1:{port}/health/live")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("make", [_nginx, _caddy])
def test_the_proxies_of_the_documents_reach_a_server_without_keys(
    make: Callable[[int, str, Path], list[str]], server: Running, tmp_path: Path
) -> None:
    port = free_port()
    command = make(port, server.url.removeprefix("http://"), tmp_path)
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with proxied(tmp_path, command, port) as url:
        page = {"Host": "elmo.example.org", "Origin": "https://elmo.example.org"}
        sent = {"sentences": [["a"]]}
        answer = httpx.post(
            f"{url}/embed", json=sent, headers={**page, "Sec-Fetch-Site": "same-origin"}
        )
        assert answer.status_code == 200, answer.text
