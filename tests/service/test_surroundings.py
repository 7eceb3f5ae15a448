"""A server depends on no folder that it may write to, and on no variables of other programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.processes import children
from tests.support.servers import SMALL, running

_ELMO = str(Path(sys.executable).with_name("elmo"))


def test_the_folder_of_the_start_may_hold_modules_and_may_go(tmp_path: Path) -> None:
    """Children would import `keyword` from it, and Python asks for it at each start of one."""
    start = tmp_path / "start"
    start.mkdir()
    (start / "keyword.py").write_text("raise RuntimeError('imported')\n")
    shutil.copytree(SMALL, tmp_path / "model")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "keys").write_text("secret\n")
    paths: dict[str, Any] = {"model": "../model", "tasks": "../tasks", "api_keys_file": "../keys"}
    command = ("env", "-C", str(start), _ELMO, "serve")
    with (
        running(tmp_path, command=command, is_forked=False, **paths) as server,
        server.client(headers={"X-API-Key": "secret"}) as client,
    ):
        shutil.rmtree(start)
        before = children(server.pid)["worker"]
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        server.until(lambda: children(server.pid)["worker"] not in ([], before))
        server.until(lambda: client.get("/health/ready").status_code == 200)

        large = {"sentences": [["small"] * 100] * 100, "layers": "top", "pooling": "mean"}
        assert client.post("/embed", json=large).status_code == 200
        assert client.post("/embed", json={"text": ["The bank."]}).status_code == 200
        (tmp_path / "keys").write_text("another\n")
        server.until(lambda: client.get("/info").status_code == 401)


def test_variables_of_other_programs_change_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "counters"
    folder.mkdir()
    others = ("WEB_CONCURRENCY=auto", f"PROMETHEUS_MULTIPROC_DIR={folder}", "FORWARDED_ALLOW_IPS=*")
    command = ("env", *others, _ELMO, "serve")
    with running(tmp_path, command=command, is_forked=False, model=SMALL) as server:
        body = {"sentences": [["a"]]}
        headers = {"X-Forwarded-For": "203.0.113.9"}
        httpx.post(server.url + "/embed", json=body, headers=headers).raise_for_status()
        assert server.metric("elmo_worker_up") == 1
        assert "203.0.113.9" not in server.log
    assert not list(folder.iterdir())


_READ_ONLY = """\
mount --bind "$1" /mnt || exit 70
while read -r _ place _; do mount -o remount,bind,ro "$place" 2> /dev/null; done < /proc/self/mounts
mount -t tmpfs tmpfs "$2" || exit 71
for place in / /dev/shm /mnt /tmp "$PWD"; do touch "$place/probe" 2> /dev/null && exit 72; done
export TMPDIR="$2"
shift 2
exec "$@"
"""
"""Runs a command with every mount read-only but an empty folder for temporary files, the second
argument, and the first one at /mnt. It is not /tmp, below which the program may be installed."""


def _has_namespaces() -> bool:
    return (
        subprocess.run(["unshare", "-Urm", "true"], check=False, capture_output=True).returncode
        == 0
    )


@pytest.mark.skipif(
    shutil.which("unshare") is None or not _has_namespaces(), reason="no user namespaces here"
)
def test_a_server_without_a_volume_to_write_to_serves_and_keeps_nothing(tmp_path: Path) -> None:
    tasks, temporary = tmp_path / "tasks", tmp_path / "temporary"
    tasks.mkdir()
    temporary.mkdir()
    home = ("-u", "XDG_DATA_HOME", "-u", "XDG_CACHE_HOME", "HOME=/nonexistent")
    alone = ("unshare", "-Urm", "sh", "-c", _READ_ONLY, "sh", str(tasks), str(temporary))
    command = ("env", *home, *alone, _ELMO, "serve")
    with running(tmp_path, command=command, is_forked=False, model=SMALL, tasks="/mnt") as server:
        large = {"sentences": [["small"] * 100] * 100, "layers": "top", "pooling": "mean"}
        with server.client() as client:
            for body in (large, {"text": ["The bank."]}):
                assert client.post("/embed", json=body).status_code == 200
            server.serve_task("ner", weights=[0.0, 1.0, 0.5])
            (task,) = client.get("/tasks").json()["tasks"]
            assert task["name"] == "ner"
        assert not list(Path(f"/proc/{server.pid}/root{temporary}").iterdir())
        assert server.stop() == 0
    assert " ERROR " not in server.log
    assert {path.name for path in tmp_path.iterdir()} == {"serve.log", "tasks", "temporary"}
