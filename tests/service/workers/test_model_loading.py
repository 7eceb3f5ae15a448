"""The start of a runner: the self-test, failures in one line, settings of the process."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference import row_buckets
from elmo_model.inference.encoder import Encoder
from elmo_serve.workers.messages import Ready, RunnerSettings
from elmo_serve.workers.model_loading import ModelLoadError, known_vectors, self_test, start
from tests.support.checkpoints import write_pair


def settings(folder: Path) -> RunnerSettings:
    return RunnerSettings(str(folder), "cpu", "float32", 100, 1_000_000, 1, 512)


def test_a_model_whose_vectors_differ_is_not_served(tmp_path: Path) -> None:
    network = load(write_pair(tmp_path))
    expected, encoder = known_vectors(network), Encoder.of(network)

    self_test(encoder, expected, settings(tmp_path))
    with pytest.raises(ModelLoadError, match="vectors differ by"):
        self_test(encoder, expected + 1, settings(tmp_path))


def test_a_start_reports_the_model_and_the_next_one_repeats_neither_warm_up_nor_centre(
    tmp_path: Path,
) -> None:
    """They were 10 of the 14 seconds after which a worker of `english` was back."""
    own = settings(write_pair(tmp_path))
    first, message = start(own)
    assert first is not None and first.info.centre is not None
    seconds = first.seconds_per_token, first.seconds_per_step
    assert message == Ready(first.info, *seconds, row_buckets.TRIALS)
    assert (first.info.layers, first.info.precision) == (3, "float32")
    assert first.seconds_per_token > 0 and first.seconds_per_step > 0
    info = replace(first.info, centre=replace(first.info.centre, tokens=1))
    known = Ready(info, 1.0, 2.0, {"a trial": (2, 4)})

    second, _ = start(replace(own, known=known))
    assert second is not None and second.info.centre is info.centre
    assert (second.seconds_per_token, second.seconds_per_step) == (1.0, 2.0)
    assert row_buckets.TRIALS["a trial"] == (2, 4)

    other = replace(known, info=replace(info, revision="of other weights"))
    third, _ = start(replace(own, known=other))
    assert third is not None and third.info.centre is not info.centre
    assert third.seconds_per_token not in (0, 1.0)


def test_an_unknown_precision_and_a_missing_model_are_one_line(tmp_path: Path) -> None:
    folder = write_pair(tmp_path)
    for bad in (
        replace(settings(folder), precision="int4"),
        replace(settings(folder), model=str(tmp_path / "missing")),
    ):
        runner, message = start(bad)
        assert runner is None
        assert "\n" not in message.reason and message.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["softmax", "warm_start"])
def test_a_file_of_a_setting_that_does_not_fit_is_named_with_the_setting(
    tmp_path: Path, name: str
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xfe")
    own = settings(write_pair(tmp_path / "model"))

    runner, message = start(replace(own, **{name: str(file)}))  # type: ignore[arg-type]

    assert runner is None
    assert message.reason.startswith(f"ELMO_{name.upper()}: {file}")  # type: ignore[union-attr]


def test_only_a_worker_that_owns_its_process_sets_the_torch_threads_of_the_process(
    tmp_path: Path, one_torch_thread: None
) -> None:
    torch.set_num_threads(3)
    own = settings(write_pair(tmp_path))
    start(own)
    assert torch.get_num_threads() == 3
    start(own, owns_process=True)
    assert torch.get_num_threads() == own.threads == 1
