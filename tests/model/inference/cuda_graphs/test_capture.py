"""CUDA graphs are optional: without them a warning says why."""

import logging
from pathlib import Path

import pytest

from elmo_model.checkpoints import load
from elmo_model.inference.cuda_graphs.capture import capture, warn_unused
from elmo_model.inference.encoder import Encoder
from tests.support.checkpoints import write_pair


def test_nothing_is_captured_on_a_cpu(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert capture(Encoder.of(load(write_pair(tmp_path))).bilm) is None
    assert not caplog.records


def test_the_warning_is_one_line_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_unused("no\n  graphs")
    assert caplog.messages == ["CUDA graphs are not used, which is slower: no graphs"]
