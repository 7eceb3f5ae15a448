"""The start of a runner: the self-test, failures in one line, settings of the process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load, save
from elmo_model.inference import lstm, row_buckets
from elmo_model.inference.centre import TEXT
from elmo_model.inference.cuda_graphs import StepGraphs
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import TorchLinear
from elmo_model.network.description import Centre, Description
from elmo_serve.workers.messages import LoadFailed, Ready, RunnerSettings, WarmUp
from elmo_serve.workers.model_loading import (
    ModelLoadError,
    known_vectors,
    self_test,
    start,
    warm_up,
)
from tests.support.checkpoints import write_pair


def settings(folder: Path) -> RunnerSettings:
    return RunnerSettings(str(folder), "cpu", "float32", 1, 512)


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
    assert message == Ready(first.info, first.warm_up, row_buckets.TRIALS)
    assert (first.info.layers, first.info.precision) == (3, "float32")
    assert first.warm_up.seconds_per_token > 0
    assert first.warm_up.tokens == own.warm_up_tokens
    info = replace(first.info, centre=replace(first.info.centre, tokens=1))
    known = Ready(info, WarmUp(256, 1.0), {"a trial": (2, 4)})

    second, _ = start(replace(own, known=known))
    assert second is not None and second.info.centre is info.centre
    assert second.warm_up == known.warm_up
    assert row_buckets.TRIALS["a trial"] == (2, 4)

    other = replace(known, info=replace(info, revision="of other weights"))
    third, _ = start(replace(own, known=other))
    assert third is not None and third.info.centre is not info.centre
    assert third.warm_up.seconds_per_token not in (0, 1.0)


def test_the_centre_that_a_checkpoint_states_is_that_of_the_model(tmp_path: Path) -> None:
    elmo = load(write_pair(tmp_path / "pair"))
    layers = torch.rand(elmo.config.layers, elmo.config.dimension).numpy()
    stated = Description(centre=Centre("held.txt", 9_000, layers))
    elmo.origin = replace(elmo.origin, description=stated)
    save(elmo, tmp_path / "own.safetensors")

    runner, _ = start(settings(tmp_path / "own.safetensors"))

    assert runner is not None and runner.info.centre is not None
    assert (runner.info.centre.text, runner.info.centre.tokens) == ("held.txt", 9_000)
    assert (runner.info.centre.layers == layers).all()

    known = Ready(replace(runner.info, centre=Centre("other.txt", 1, layers)))
    for path, text in (("own.safetensors", "held.txt"), ("pair", TEXT)):
        again, _ = start(replace(settings(tmp_path / path), known=known))
        assert again is not None and again.info.centre is not None
        assert again.info.revision == known.info.revision
        assert again.info.centre.text == text


class LimitedEncoder:
    """An encoder on a device with memory for batches of up to `room` tokens, padding included."""

    def __init__(self, room: int) -> None:
        self._room = room
        self.bilm = SimpleNamespace(graphs=None)

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        if len(sentences) * (max(map(len, sentences)) + 2) > self._room:
            raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")
        return [torch.empty(0)]


def test_a_precision_that_the_machine_or_the_weights_refuse_is_one_line_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    network = load(write_pair(tmp_path))
    with torch.no_grad():
        network.state_dict()["bilm.forward_stack.layers.0.input.weight"][0, 0] = 1e5
    save(network, tmp_path / "large.safetensors")

    runner, message = start(replace(settings(tmp_path / "large.safetensors"), precision="float16"))
    assert runner is None and isinstance(message, LoadFailed)
    assert "float16" in message.reason
    assert not any(record.exc_info for record in caplog.records)


def test_a_warm_up_without_memory_is_halved_and_reports_the_tokens_that_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, cpu = replace(settings(tmp_path), warm_up_tokens=4_096), torch.device("cpu")
    found = warm_up(cast(Encoder, LimitedEncoder(1_500)), cpu, own)
    assert found.tokens == 1_024
    assert "memory" in caplog.text

    with pytest.raises(ModelLoadError, match="memory"):
        warm_up(cast(Encoder, LimitedEncoder(10)), cpu, own)


def test_a_warm_up_captures_the_graphs_of_all_requests_within_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capture waits for the device and empties its caches, which no request should wait for."""
    monkeypatch.setattr(lstm, "linear_of", lambda weight, precision: TorchLinear(weight))
    encoder = Encoder.of(load(write_pair(tmp_path)))
    captures, is_short = list[int](), True

    def capture(compute: Callable[[], None]) -> Callable[[], None]:
        nonlocal is_short
        captures.append(1)
        if is_short and len(captures) == 3:
            is_short = False
            raise torch.OutOfMemoryError
        return compute

    encoder.bilm.graphs = StepGraphs(encoder.bilm.stacks, capture, (1, 2, 4, 8))
    own = replace(settings(tmp_path), warm_up_tokens=400)
    assert warm_up(encoder, torch.device("cpu"), own).tokens == 200
    captured = len(captures)
    for rows in range(1, 11):  # which have two boundaries each
        for length in (1, 4, 5, 8, 9, 13, 18):
            encoder.embed([["word"] * length] * rows)
    assert len(captures) == captured


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_fails_in_any_way_is_a_reason_and_no_lost_process(tmp_path: Path) -> None:
    """torch raises AssertionError where it is built without CUDA, RuntimeError without a driver."""
    runner, message = start(replace(settings(write_pair(tmp_path)), device="cuda:0"))

    assert runner is None
    assert message.reason.startswith("cuda:0")  # type: ignore[union-attr]


def test_a_worker_that_owns_its_process_computes_float32_on_cuda_without_tf32(
    tmp_path: Path, one_torch_thread: None
) -> None:
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    own = replace(settings(tmp_path / "missing"), device="cuda:0")
    try:
        for owns_process, expected in ((False, (True, "high")), (True, (False, "highest"))):
            torch.backends.cudnn.allow_tf32 = True
            torch.set_float32_matmul_precision("high")
            start(own, owns_process=owns_process)
            found = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
            assert found == expected
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])


def test_an_unknown_precision_and_a_missing_model_are_one_line(tmp_path: Path) -> None:
    folder = write_pair(tmp_path)
    for bad in (
        replace(settings(folder), precision="int4"),
        replace(settings(folder), model=str(tmp_path / "missing")),
    ):
        runner, message = start(bad)
        assert runner is None
        assert "\n" not in message.reason and message.reason  # type: ignore[union-attr]


def test_a_softmax_that_does_not_fit_is_named_with_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xfe")
    runner, message = start(replace(settings(write_pair(tmp_path / "model")), softmax=str(file)))

    assert runner is None
    assert message.reason.startswith(f"ELMO_SOFTMAX: {file}")  # type: ignore[union-attr]


def test_only_a_worker_that_owns_its_process_sets_the_torch_threads_of_the_process(
    tmp_path: Path, one_torch_thread: None
) -> None:
    torch.set_num_threads(3)
    own = settings(write_pair(tmp_path))
    start(own)
    assert torch.get_num_threads() == 3
    start(own, owns_process=True)
    assert torch.get_num_threads() == own.threads == 1
