"""Devices are checked before anything is started, without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_serve.settings import SettingsError
from elmo_serve.workers import devices

COMMAND = Path(sys.executable).with_name("elmo")


def test_there_is_a_device() -> None:
    names = devices.available()

    assert names == ("cpu",) or all(name.startswith("cuda:") for name in names)


def test_every_device_that_is_available_passes_the_check() -> None:
    devices.check(devices.available(), "ELMO_DEVICES")
    devices.check(("cpu",), "ELMO_DEVICES")


def test_a_device_that_is_not_here_is_named_with_those_that_are() -> None:
    with pytest.raises(SettingsError) as caught:
        devices.check(("cpu", "cuda:63"), "ELMO_DEVICES")

    assert str(caught.value).startswith("ELMO_DEVICES='cpu,cuda:63' is not allowed: cuda:63: ")
    assert "there is cpu" in str(caught.value)


def test_there_is_a_core() -> None:
    assert 1 <= devices.cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("arguments", "variables", "name"),
    [
        ([], {"ELMO_DEVICES": "cuda:63"}, "ELMO_DEVICES"),
        (["--devices", "cuda:63"], {}, "--devices"),
    ],
)
def test_a_server_for_an_absent_device_ends_with_one_line(
    arguments: list[str], variables: dict[str, str], name: str
) -> None:
    run = subprocess.run(
        [COMMAND, "serve", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert f"{name}='cuda:63' is not allowed" in line
