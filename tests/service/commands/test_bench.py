"""`elmo bench` against a real server, and against servers that misbehave."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
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
    scripted_server,
)
from tests.support.servers import Running, free_port

HEARS_SIGINT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
from elmo_serve.cli import main
main()
"""
SECONDS = (0.2, 2, 20)
"""Lengths of a load: a longer one follows where a busy machine answered too few requests."""


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[ScriptedServer]:
    """A server whose vectors spell the first token, which must be a number."""
    (tmp_path / "text").write_text("1\n2\n")
    with scripted_server() as found:
        yield found


def bench(is_enough: Callable[[Result], bool], *arguments: object) -> Result:
    """Run `elmo bench` until a result is enough, each time with the next of `SECONDS`."""
    for seconds in SECONDS:
        found = elmo("bench", *arguments, "--warm-up", 0, "--duration", seconds)
        if is_enough(found):
            break
    return found


@pytest.mark.parametrize("media", ["json", "npz", "safetensors"])
def test_a_real_server_is_measured_in_every_format(
    server: Running, media: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("the same sentence in each request\n")

    def is_enough(found: Result) -> bool:
        phases = json.loads(found.stdout)["phases"] if found.exit_code == 0 else []
        return all(phase["tokens_per_second"] and phase["vectors"]["compared"] for phase in phases)

    found = bench(
        is_enough,
        *(server.url, "--clients", 2, "--rate", 100, "--text", tmp_path / "text"),
        *("--tokens", 20, "--format", media, "--json"),
    )

    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert [phase["load"] for phase in body["phases"]] == ["2 clients", "100 requests/s"]
    closed, opened = body["phases"]
    assert closed["requests"]["answered"] > 0 and opened["vectors"]["compared"] > 0
    assert closed["vectors"]["wrong"] == opened["vectors"]["wrong"] == 0
    assert closed["tokens_per_second"] > 0
    assert closed["servers"] is None and opened["servers"] >= 1
    assert closed["received_bytes_per_token"] > 3 * 4
    assert set(closed["latency_ms"]) == {"p50", "p90", "p99", "p99.9", "max", "mean"}
    assert body["server"]["precision"] == "float32"
    assert body["requests"]["mean_tokens"] > 2


def test_a_rate_has_a_line_with_its_servers(server: Running) -> None:
    loads = ("--clients", 8, "--rate", 20)
    found = bench(
        lambda found: "need at most" in found.stdout,
        *(server.url, *loads, "--layers", "0,2", "--seed", 3),
    )

    assert found.exit_code == 0, found.output
    assert "layers [0, 2], application/vnd.safetensors" in found.stdout
    assert re.search(r"^8 clients +[\d.,]+ +[\d.,]+ .* 0 *$", found.stdout, re.MULTILINE)
    assert re.search(
        r"^20 requests/s at the peak need at most \d+ such servers?, each used to 80% of [\d,]+ "
        r"tokens/s, the most measured here\.$",
        found.stdout,
        re.MULTILINE,
    )


def test_a_missing_key_is_one_line(scripted: ScriptedServer) -> None:
    scripted.info = refuse(401)
    found = elmo("bench", scripted.url)

    assert found.exit_code == 1
    assert len(found.stderr.splitlines()) == 1 and "401" in found.stderr


def test_a_dead_address_is_one_line() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    found = elmo("bench", url)

    assert found.exit_code == 1
    assert len(found.stderr.splitlines()) == 1 and url in found.stderr
    assert not found.stdout


@pytest.mark.parametrize(
    "options",
    [("--sentences", 1, "--tokens", 1), ("--layers", "top", "--task", "x")],
)
def test_options_that_exclude_each_other_are_refused(options: tuple[object, ...]) -> None:
    found = elmo("bench", "http://127.0.0.1:1", *options)

    assert found.exit_code == 2 and "give one of them" in found.stderr


@pytest.mark.parametrize("options", [("--text", "no.txt"), ("--layers", "tpo")])
def test_a_wrong_option_ends_with_2_before_the_server_is_asked(options: tuple[str, str]) -> None:
    found = elmo("bench", "http://127.0.0.1:1", *options)

    assert found.exit_code == 2
    assert options[0] in found.stderr and options[1] in found.stderr


def test_a_layer_that_the_model_lacks_is_one_line(scripted: ScriptedServer) -> None:
    found = elmo("bench", scripted.url, "--layers", "9", "--sentences", 1)

    assert found.exit_code == 1 and "there is no layer 9" in found.stderr


def one_client(scripted: ScriptedServer, folder: Path, *script: Responder) -> tuple[int, str]:
    """Run `elmo bench` with one client until the script is at its end."""

    def is_enough(_found: Result) -> bool:
        is_over = not scripted.script
        scripted.script = list(script)
        return is_over

    scripted.script = list(script)
    text = ("--text", folder / "text", "--sentences", 1)
    found = bench(is_enough, scripted.url, *text, "--clients", 1)
    return found.exit_code, found.stdout


def wrong(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    correct(handler, body.replace(b'"1"', b'"7"').replace(b'"2"', b'"7"'))


def test_a_wrong_vector_is_named_and_ends_with_1(scripted: ScriptedServer, tmp_path: Path) -> None:
    code, text = one_client(scripted, tmp_path, correct, correct, wrong)

    assert code == 1
    assert "1 wrong" in text
    assert "1 client: wrong: " in text and '{"sentences":[["1"]]}' in text


def test_refusals_are_no_failure(scripted: ScriptedServer, tmp_path: Path) -> None:
    soon = {"Retry_After": "0"}
    script = (refuse(503, **soon), refuse(429, **soon), correct)
    code, text = one_client(scripted, tmp_path, *script)

    assert code == 0
    assert "2 refused" in text


def test_a_load_without_an_answer_in_time_has_a_line(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    short = ("--rate", 0.001, "--duration", 0.001, "--warm-up", 0)  # its first is due much later
    found = elmo("bench", scripted.url, "--text", tmp_path / "text", "--sentences", 1, *short)

    assert found.exit_code == 0
    assert found.stderr == (
        "elmo: 0.001 requests/s: no request was answered in 0.001 s, expected at least one: give a "
        "longer --duration\n"
    )


def test_a_lost_request_ends_with_1(scripted: ScriptedServer, tmp_path: Path) -> None:
    code, text = one_client(scripted, tmp_path, hang_up)

    assert code == 1
    assert "1 lost" in text and "1 client: lost: " in text


def test_a_failure_ends_with_1(scripted: ScriptedServer, tmp_path: Path) -> None:
    code, text = one_client(scripted, tmp_path, refuse(500))

    assert code == 1
    assert "1 failed" in text and "failed: 500" in text


@pytest.mark.parametrize("count", [1, 2, 30])
def test_ctrl_c_prints_what_was_measured(
    scripted: ScriptedServer, tmp_path: Path, count: int
) -> None:
    options = ["--text", str(tmp_path / "text"), "--sentences", "1", "--warm-up", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", HEARS_SIGINT, "bench", scripted.url, "--duration", "600", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(20):
            assert scripted.arrived.acquire(timeout=120)
        process.send_signal(signal.SIGINT)
        for _ in range(count - 1):  # `timeout -s INT` sends a second one at once
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(signal.SIGINT)
        text, errors = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "8 clients" in text and "Interrupted: the last row is incomplete." in text
    assert " lost" not in text
