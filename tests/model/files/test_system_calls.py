"""System calls of Linux, and their other case."""

import os

import pytest

from elmo_model.files.system_calls import usable_cores


def test_a_process_may_use_some_cores_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = os.cpu_count() or 1
    assert 1 <= usable_cores() <= cores
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert 1 <= usable_cores() <= cores  # fewer in a container with a quota
