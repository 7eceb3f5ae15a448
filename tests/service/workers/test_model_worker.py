"""What a sentence asked for comes out of a batch of sentences that asked for other things."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from elmo_serve.output import Output
from elmo_serve.workers.messages import Batch, Failed, RunnerSettings
from elmo_serve.workers.model_worker import (
    DeviceLostError,
    Runner,
    UnfitModelError,
    answers_of,
    is_memory_short,
    known_vectors,
    outputs,
    self_test,
)
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.checkpoints import write_pair
from tests.support.reference import scalar_mix

SENTENCES = [["one", "two", "three"], [], ["four"]]
WEIGHTS = (0.5, -1.0, 2.0)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_mix_is_that_of_its_own_sentence(tmp_path: Path, layer_norm: bool) -> None:
    model = load(write_pair(tmp_path))
    wanted = [
        Output(weights=WEIGHTS, gamma=0.75, layer_norm=layer_norm),
        Output(layers=(0, 1, 2), stacked=True),
        Output(weights=(0.0, 0.0, 0.0), pooling="mean"),
    ]

    with torch.inference_mode():
        found, _ = model(SENTENCES)
        mixed, empty, pooled = (answer.numpy() for answer in outputs(model, found, wanted))
        layers = [each.numpy() for each in found.sentences()]

    expected = scalar_mix(layers[0], WEIGHTS, 0.75, layer_norm)[1:-1]
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-5)
    assert empty.shape == (3, 0, 8)
    np.testing.assert_allclose(pooled, layers[2][:, 1:-1].mean(axis=(0, 1)), rtol=0, atol=1e-6)


def test_a_batch_of_normalised_and_other_answers_is_in_the_order_of_its_sentences(
    tmp_path: Path,
) -> None:
    model = load(write_pair(tmp_path))
    sentences = [["one"], ["two", "three"], [], ["four"] * 5, ["five"]]
    wanted = [
        Output(layers=(0, 1, 2), stacked=True),
        Output(weights=WEIGHTS, layer_norm=True),
        Output(weights=WEIGHTS, layer_norm=True),
        Output(layers=(2,)),
        Output(weights=WEIGHTS, pooling="max"),
    ]
    with torch.inference_mode():
        whole, _ = model(sentences)
        expected = outputs(model, whole, wanted)
        found = answers_of(model, sentences, wanted)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=5e-6)


def test_mixes_of_an_aligned_model_are_aligned_and_its_layers_are_not(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((8, 8))
    write_pair(tmp_path)
    torch.save(torch.from_numpy(matrix), tmp_path / "align.pth")
    model = load(tmp_path)
    wanted = [Output(weights=WEIGHTS), Output(layers=(1,)), Output(layers=(2,))]

    with torch.inference_mode():
        found, _ = model([["a", "b"]] * 3)
        mixed, first, second = (answer.numpy() for answer in outputs(model, found, wanted))
        layers = found.sentences()[0].numpy()

    expected = scalar_mix(layers, WEIGHTS, 1.0)[1:-1] @ matrix.T
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(first, layers[1, 1:-1])
    np.testing.assert_array_equal(second, layers[2, 1:-1])


def test_memory_that_is_short_on_a_cpu_is_told_from_other_failures() -> None:
    with pytest.raises(RuntimeError) as full:
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError) as wrong:
        torch.empty(2) @ torch.empty(3)

    assert is_memory_short(full.value)
    assert not is_memory_short(wrong.value)


@pytest.mark.parametrize("error", [torch.AcceleratorError, torch.OutOfMemoryError, IndexError])
def test_a_lost_device_ends_the_worker_and_other_failures_are_those_of_a_batch(
    tmp_path: Path, error: type[Exception]
) -> None:
    elmo = load(write_pair(tmp_path)).prepare()

    def fail(*_: object) -> None:
        raise error("an illegal memory access\nwas encountered")

    elmo.bilm.forward_stack.layers[1].register_forward_pre_hook(fail)
    runner = Runner(elmo, "float32", torch.device("cpu"), 0.0)
    segment, memory = SharedMemoryPool().acquire(1024)
    batch = Batch(7, (b'["one"]',), (Output(layers=(2,)),), (0,), 3, 3, segment)

    if error is torch.AcceleratorError:
        with pytest.raises(DeviceLostError, match="an illegal memory access was encountered"):
            runner.run(batch, memory)
    else:
        failed = runner.run(batch, memory)
        assert isinstance(failed, Failed)
        assert (failed.batch, failed.memory) == (7, error is torch.OutOfMemoryError)


class Fading:
    """Repeats what it was given, but for the last time that it is asked to."""

    def __init__(self, times: int) -> None:
        self.times = times

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        first()
        second()

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            self.times -= 1
            if self.times != 0:
                compute()

        return replay


def settings(folder: Path) -> RunnerSettings:
    return RunnerSettings(str(folder), "cpu", "float32", 100, 1_000_000, 1, 32, "info", "text")


def prepared(folder: Path, times: int) -> Elmo:
    elmo = load(folder).double().prepare()  # float64: its products are plain ones on a CPU too
    elmo.bilm.record_by(Fading(times))
    return elmo


@pytest.mark.parametrize("times", [4, 3])
def test_the_start_goes_on_without_recordings_that_give_wrong_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    elmo = prepared(tmp_path, times)  # two shapes, each tried once before it is replayed

    with caplog.at_level(logging.WARNING):
        self_test(elmo, expected, settings(tmp_path))

    assert not elmo.bilm.recordings.are_used
    assert "vectors differ by" in caplog.text
    torch.testing.assert_close(known_vectors(elmo), expected, rtol=0, atol=1e-5)


def test_the_self_test_goes_by_recordings_and_keeps_those_that_are_right(tmp_path: Path) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    elmo = prepared(tmp_path, 5)  # one more than the self-test needs

    self_test(elmo, expected, settings(tmp_path))

    assert elmo.bilm.recordings.are_used


def test_a_model_that_differs_without_recordings_too_is_not_served(tmp_path: Path) -> None:
    expected = known_vectors(load(write_pair(tmp_path)))
    elmo = prepared(tmp_path, 0)

    with pytest.raises(UnfitModelError, match="vectors differ by"):
        self_test(elmo, expected + 1, settings(tmp_path))
