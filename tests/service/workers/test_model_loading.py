"""The start of a runner: the self-test, failures in one line, settings of the process."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.inference.cuda_graphs.chunked_bilm import ChunkedBiLM
from elmo_model.inference.encoder import Encoder
from elmo_serve.workers.messages import Ready, RunnerSettings
from elmo_serve.workers.model_loading import UnfitModelError, known_vectors, self_test, start
from tests.support.capturers import Fading
from tests.support.checkpoints import write_pair


def settings(folder: Path) -> RunnerSettings:
    return RunnerSettings(
        str(folder), "cpu", "float32", 100, 1_000_000, False, 1, 512, "info", "text"
    )


def with_replays(folder: Path, replays: int) -> Encoder:
    """Return an encoder whose captured chunks compute nothing from the given replay on."""
    encoder = Encoder.of(load(folder).double())  # float64: its products are plain ones on a CPU
    with torch.inference_mode():
        return replace(encoder, graphs=ChunkedBiLM(encoder.bilm, Fading(replays)))


@pytest.mark.parametrize("replays", [4, 3])
def test_cuda_graphs_that_give_wrong_vectors_are_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, replays: int
) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    encoder = with_replays(tmp_path, replays)  # two shapes, each tried once before its replay

    with caplog.at_level(logging.WARNING):
        chosen = self_test(encoder, expected, settings(tmp_path))

    assert chosen.graphs is None
    assert "CUDA graphs are not used" in caplog.text and "vectors differ by" in caplog.text
    torch.testing.assert_close(known_vectors(chosen), expected, rtol=0, atol=1e-5)


def test_cuda_graphs_that_give_right_vectors_are_used(tmp_path: Path) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    encoder = with_replays(tmp_path, 5)  # one more than the self-test needs

    assert self_test(encoder, expected, settings(tmp_path)) is encoder


def test_a_model_that_differs_without_cuda_graphs_too_is_not_served(tmp_path: Path) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    encoder = with_replays(tmp_path, 1000)

    with pytest.raises(UnfitModelError, match="vectors differ by"):
        self_test(encoder, expected + 1, settings(tmp_path))


def test_a_start_reports_the_model_and_the_next_one_repeats_neither_warm_up_nor_centre(
    tmp_path: Path,
) -> None:
    """They were 10 of the 14 seconds after which a worker of `english` was back."""
    own = settings(write_pair(tmp_path))
    first, message = start(own)
    assert first is not None and first.info.centre is not None
    assert message == Ready(first.info, first.seconds_per_token)
    assert (first.info.layers, first.info.precision) == (3, "float32")
    assert first.seconds_per_token > 0
    known = replace(first.info, centre=replace(first.info.centre, tokens=1))

    second, message = start(replace(own, known=known))
    assert second is not None and second.info.centre is known.centre
    assert second.seconds_per_token == 0
    assert message == Ready(first.info)

    third, _ = start(replace(own, known=replace(known, revision="of other weights")))
    assert third is not None and third.info.centre is not known.centre
    assert third.seconds_per_token > 0


def test_an_unknown_precision_and_a_missing_model_are_one_line(tmp_path: Path) -> None:
    folder = write_pair(tmp_path)
    for bad in (
        replace(settings(folder), precision="int4"),
        replace(settings(folder), model=str(tmp_path / "missing")),
    ):
        runner, message = start(bad)
        assert runner is None
        assert "\n" not in message.reason and message.reason  # type: ignore[union-attr]


def test_only_a_worker_that_owns_its_process_sets_the_torch_threads_of_the_process(
    tmp_path: Path, one_torch_thread: None
) -> None:
    torch.set_num_threads(3)
    own = settings(write_pair(tmp_path))
    start(own)
    assert torch.get_num_threads() == 3
    start(own, owns_process=True)
    assert torch.get_num_threads() == own.threads == 1
