"""`elmo plan`: a measurement in, replicas out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import elmo
from tests.support.measurements import measurement
from tests.support.servers import Running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(measurement()))
    return path


def test_a_load_is_planned(file: Path) -> None:
    found = elmo("plan", file, "--tokens-per-day", 4e8, "--p99", 500, "--requests", 500)

    assert found.exit_code == 0, found.output
    assert "replicas      " in found.stdout and "bytes a token" in found.stdout


def test_the_units_of_a_load_are_one(file: Path) -> None:
    same = ("--replicas", 4, "--requests", 300, "--json")
    bodies = [
        json.loads(elmo("plan", file, *load, *same).stdout)
        for load in (
            ("--tokens-per-day", 4_000 * 86_400, "--peak", 2),
            ("--tokens-per-second", 8_000, "--peak", 2),
            ("--requests-per-second", 400, "--peak", 2),
        )
    ]

    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["tokens_per_second"] == 8_000


@pytest.mark.parametrize("loads", [(), ("--tokens-per-day", 1, "--tokens-per-second", 1)])
def test_one_load_is_given(file: Path, loads: tuple[object, ...]) -> None:
    found = elmo("plan", file, *loads)

    assert found.exit_code == 2
    assert (
        "give one of --tokens-per-day, --tokens-per-second, --requests-per-second" in found.stderr
    )


def test_a_file_that_is_no_measurement_is_one_line(tmp_path: Path) -> None:
    found = elmo("plan", tmp_path / "missing.json", "--tokens-per-day", 1)

    assert found.exit_code == 1 and len(found.stderr.splitlines()) == 1
    assert "missing.json: No such file" in found.stderr


def test_a_p99_that_cannot_be_is_one_line(file: Path) -> None:
    found = elmo("plan", file, "--tokens-per-second", 10, "--p99", 1, "--requests", 300)

    assert found.exit_code == 1 and len(found.stderr.splitlines()) == 1


def test_a_real_measurement_is_planned(tmp_path: Path, server: Running) -> None:
    path = tmp_path / "bench.json"
    loads = ("--clients", 1, "--clients", 4, "--duration", 0.3, "--warm-up", 0)
    measured = elmo("bench", server.url, *loads, "--tokens", 20, "--json")
    assert measured.exit_code == 0, measured.output
    path.write_text(measured.stdout)

    found = elmo("plan", path, "--tokens-per-second", 10, "--p99", 1e6, "--requests", 300, "--json")

    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert body["replica_tokens_per_second"] > 0
    assert body["batch_seconds"]["per_token"] > 0 or body["batch_seconds"]["fixed"] > 0
