"""A server depends neither on the folder it was started in nor on variables of other programs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import httpx

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
