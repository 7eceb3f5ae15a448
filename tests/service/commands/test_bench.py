"""`elmo bench` against a real server, and against servers that misbehave."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.command_line import elmo
from tests.support.scripted_server import (
    Responder,
    ScriptedServer,
    correct,
    hang_up,
    refuse,
)
from tests.support.servers import Running

SECONDS = (0.2, 2, 20)
"""Lengths of a load: a longer one follows where a busy machine answered too few requests."""


@pytest.mark.parametrize("load", [("--clients", 2), ("--rate", 100)])
def test_a_real_server_is_measured(server: Running, load: tuple[str, int]) -> None:
    for seconds in SECONDS:
        found = elmo("bench", server.url, *load, "--duration", seconds, "--json")
        assert found.exit_code == 0, found.output
        members = json.loads(found.stdout)
        if members["tokens_per_second"] and members["compared"]:
            break

    assert members["answered"] > 0 == members["wrong"]
    assert members["compared"] > 0 and members["worst"] <= 1
    assert members["latency_p50_ms"] <= members["latency_p99_ms"]
    assert members["server"]["precision"] == "float32"


def one_client(scripted: ScriptedServer, folder: Path, *script: Responder) -> Result:
    """Run `elmo bench` with one client until the script is at its end."""
    (folder / "bodies").write_text('{"sentences": [["1"]]}\n\n{"sentences": [["2"]]}\n')
    body = ("--body", folder / "bodies")
    for seconds in SECONDS:
        scripted.script = list(script)
        found = elmo("bench", scripted.url, *body, "--clients", 1, "--duration", seconds)
        if not scripted.script:
            break
    return found


def wrong(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    correct(handler, body.replace(b'"1"', b'"7"').replace(b'"2"', b'"7"'))


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ((correct, correct, wrong), 1, ("wrong: 1\n", '{"sentences": [["1"]]}')),
        ((hang_up,), 1, ("lost: 1\n", "lost: ")),
        ((refuse(500),), 1, ("failed: 1 with 500\n", "not now")),
        (
            (refuse(503, Retry_After="0"), refuse(429, Retry_After="0")),
            0,
            ("failed: 0\n", "faults: none\n"),
        ),
    ],
    ids=["wrong", "lost", "failed", "refused"],
)
def test_what_was_not_right_is_named_and_ends_with_1(
    scripted: ScriptedServer,
    tmp_path: Path,
    script: tuple[Responder, ...],
    code: int,
    words: tuple[str, ...],
) -> None:
    found = one_client(scripted, tmp_path, *script)

    assert found.exit_code == code, found.output
    assert all(word in found.stdout for word in words), found.stdout


def test_a_missing_key_is_one_line(scripted: ScriptedServer) -> None:
    scripted.info = refuse(401)
    found = elmo("bench", scripted.url)

    assert found.exit_code == 1
    assert len(found.stderr.splitlines()) == 1 and "401" in found.stderr
