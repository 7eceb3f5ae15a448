"""Windows of time steps of both directions, as a CUDA graph holds them: computed here on a CPU."""

from collections.abc import Callable
from itertools import groupby
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_model.checkpoints import load
from elmo_model.inference import lstm
from elmo_model.inference.batch_run import never_stop
from elmo_model.inference.cuda_graphs import WINDOW, StepGraphs, Windows
from elmo_model.inference.cuda_kernels import cell_by_torch, pointwise
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.linear import TorchLinear
from tests.support.cuda import NO_LAUNCHES, PretendStream, RecordedGraph
from tests.support.golden import SMALL

LENGTHS = [5, 0, 1, 70, 8, 9, 16, 17, 3, 3, 64, 65, 130, 7]
SENTENCES = [[f"word{(n + place) % 11}" for place in range(n)] for n in LENGTHS]
OTHERS = [["a", "b", "c"], ["word1"] * 20]
ROWS = (2, 4, 8)  # 14 sentences are two parts
ROUNDING = 2e-5  # products in another order, amplified by a random network with values up to 6


@pytest.fixture(scope="module")
def expected() -> Encoder:
    return Encoder.of(load(SMALL))


@pytest.fixture(scope="module")
def windowed() -> Encoder:
    """An encoder whose graphs are the functions that a device would capture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lstm, "linear_of", lambda weight, precision: TorchLinear(weight))
        encoder = Encoder.of(load(SMALL))
    assert not StepGraphs.fit(encoder.bilm.stacks) and encoder.bilm.graphs is None
    encoder.bilm.graphs = StepGraphs(encoder.bilm.stacks, lambda compute: compute, ROWS)
    return encoder


def test_windows_give_the_vectors_of_single_steps(expected: Encoder, windowed: Encoder) -> None:
    one, other = (encoder.encode_whole(SENTENCES).layers for encoder in (expected, windowed))
    torch.testing.assert_close(other, one, rtol=0, atol=ROUNDING)


class SixteenBits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes the products of 16-bit factors in float32, which only a device does; names them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.aten.bmm.dtype:
            one, other, dtype = args
            self.names.add("bmm")
            return torch.bmm(one.to(dtype), other.to(dtype))
        if func is torch.ops.aten.baddbmm.dtype_out:
            addend, one, other, dtype = args
            assert addend is kwargs["out"]
            self.names.add("baddbmm")
            return torch.baddbmm(addend, one.to(dtype), other.to(dtype), out=kwargs["out"])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_recurrent_products_are_added_where_torch_can(
    expected: Encoder, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, adds: bool
) -> None:
    monkeypatch.setattr(lstm, "linear_of", lambda weight, _: TorchLinear(weight, dtype))
    encoder = Encoder.of(load(SMALL))
    graphs = StepGraphs(encoder.bilm.stacks, RecordedGraph(), ROWS, adds_products=adds)
    monkeypatch.setattr(encoder.bilm, "graphs", graphs)
    with (found := SixteenBits()):
        layers = encoder.encode_whole(SENTENCES).layers
    one = expected.encode_whole(SENTENCES).layers
    if dtype is torch.float32:
        torch.testing.assert_close(layers, one, rtol=0, atol=ROUNDING)
        assert not found.names
    else:  # of random weights, rounded to 8 bits
        assert (torch.cosine_similarity(layers, one, dim=2).mean(dim=1) > 0.99).all()
        assert found.names == ({"bmm", "baddbmm"} if adds else {"bmm"})


def test_windows_carry_the_state_of_each_row(expected: Encoder, windowed: Encoder) -> None:
    one = other = None
    for batch in (SENTENCES[:9], SENTENCES[4:], SENTENCES[:2]):
        layers, one = expected.encode_from(batch, one)
        found, other = windowed.encode_from(batch, other)
        torch.testing.assert_close(found.layers, layers.layers, rtol=0, atol=ROUNDING)
        torch.testing.assert_close((other.h, other.c), (one.h, one.c), rtol=0, atol=ROUNDING)


def test_a_replay_reads_every_tensor_where_it_was_captured(
    expected: Encoder, windowed: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    captures = RecordedGraph()
    with torch.inference_mode():
        graphs = StepGraphs(windowed.bilm.stacks, captures, ROWS[:1])
    monkeypatch.setattr(windowed.bilm, "graphs", graphs)
    for batch in (OTHERS, SENTENCES[4:8]):
        for one, other in zip(windowed.embed(batch), expected.embed(batch), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=ROUNDING)
    assert captures.captures == 2 < captures.replays


@pytest.mark.parametrize(("longest", "steps"), [(3, [4]), (5, [8]), (20, [8, 8, 4]), (21, [8] * 3)])
def test_the_last_window_is_short_where_few_steps_are_left(longest: int, steps: list[int]) -> None:
    left, first = np.array([longest, 1]), np.array([0, longest])
    (windows,) = Windows.of(left, first, first + left - 1, (2,))
    assert [size[3] for size in windows.sizes] == steps
    assert len(windows.targets) == 2 * sum(steps) * 2


def test_a_batch_that_stops_at_each_window_keeps_its_state(windowed: Encoder) -> None:
    whole = windowed.embed(SENTENCES)
    run, others = windowed.encode(SENTENCES), windowed.embed(OTHERS)
    run.drop([12])
    stops = 0
    while not run.advance(lambda: True):
        stops += 1
        for one, other in zip(windowed.embed(OTHERS), others, strict=True):
            assert torch.equal(one, other)
    found = run.representations.sentences()
    assert stops > max(LENGTHS[:12]) // WINDOW
    for n in range(12):
        torch.testing.assert_close(found[n], whole[n], rtol=0, atol=ROUNDING)


def test_a_batch_that_is_given_up_leaves_no_state_behind(windowed: Encoder) -> None:
    run = windowed.encode(OTHERS)
    expected, state = windowed.embed(OTHERS), ref(run._state)
    assert not run.advance(lambda: True)
    run.drop(range(len(OTHERS)))
    assert run.advance()
    del run
    assert state() is None
    for one, other in zip(windowed.embed(OTHERS), expected, strict=True):
        assert torch.equal(one, other)


def test_a_capture_without_memory_fails_its_batch_alone(
    windowed: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that has stopped goes on, and the one that failed is computed again in halves."""
    is_short = False

    def capture(compute: Callable[[], None]) -> Callable[[], None]:
        compute()
        if is_short:
            raise torch.OutOfMemoryError
        return compute

    expected, long = windowed.embed(SENTENCES), SENTENCES[3]
    monkeypatch.setattr(windowed.bilm, "graphs", StepGraphs(windowed.bilm.stacks, capture, ROWS))
    run = windowed.encode([long])
    for _ in range(4):  # the words, and three windows
        assert not run.advance(lambda: True)
    is_short = True
    with pytest.raises(torch.OutOfMemoryError):
        windowed.embed(SENTENCES)
    is_short = False
    assert run.advance()
    found = run.representations.sentences()
    for half in (SENTENCES[:7], SENTENCES[7:]):
        found += windowed.embed(half)
    for one, other in zip(found, [expected[3], *expected], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=ROUNDING)


def test_windows_of_two_streams_wait_for_each_other(
    windowed: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They change one state in place, and the last window of a batch is put back by another."""
    main, side = streams = PretendStream(0), PretendStream(1)
    current, order = [main], list[int]()

    def capture(compute: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            order.append(current[0].number)
            compute()

        return replay

    graphs = StepGraphs(windowed.bilm.stacks, capture, ROWS, lambda: current[0])
    monkeypatch.setattr(windowed.bilm, "graphs", graphs)
    run = windowed.encode([SENTENCES[3]])
    for _ in range(4):  # the words, and three windows
        assert not run.advance(lambda: True)
    assert [stream.waited_for for stream in streams] == [[], []]
    current[0] = side
    windowed.embed(OTHERS)
    assert [stream.waited_for for stream in streams] == [[], [0]]
    current[0] = main
    assert run.advance()
    assert [stream.waited_for for stream in streams] == [[1], [0]]
    assert [number for number, _ in groupby(order)] == [0, 1, 0]


def test_a_batch_that_never_stops_takes_the_lock_once_a_block(
    windowed: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once more for its last state; one that may stop, once a window."""
    taken, stream = list[int](), PretendStream()

    def current() -> PretendStream:  # asked for at each time
        taken.append(1)
        return stream

    graphs = StepGraphs(windowed.bilm.stacks, lambda compute: compute, ROWS, current)
    monkeypatch.setattr(windowed.bilm, "graphs", graphs)
    vectors = []
    for stop, times in ((never_stop, 2), (lambda: False, 64 // WINDOW + 1)):
        run = windowed.encode([["word1"] * 64])
        taken.clear()
        assert run.advance(stop)
        assert len(taken) == times
        vectors.append(run.representations.layers)
    assert torch.equal(*vectors)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_a_network_on_a_device_has_graphs_where_it_is_in_float32(dtype: torch.dtype) -> None:
    """A kernel would read the numbers of a network that was made `half()` as others."""
    layer: Any = SimpleNamespace()
    with FakeTensorMode():  # tensors of a device that is not there
        layer.bias = torch.empty(4, dtype=dtype, device="cuda")
        linear = TorchLinear(layer.bias.view(2, 2))
        layer.input = layer.recurrent = layer.projection = linear
        stack: Any = SimpleNamespace(layers=[layer])
        assert StepGraphs.fit([stack]) == (dtype is torch.float32)


def test_a_device_without_a_compiler_takes_the_operations_of_torch_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        assert pointwise(torch.device("cuda:127"), torch.float16)[0] is cell_by_torch
    (record,) = caplog.records
    assert "torch.float16 on cuda:127" in record.getMessage()


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that a device would run."""

    count: int = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += func.name().removeprefix("aten::").partition(".")[0] not in NO_LAUNCHES
        return func(*args, **(kwargs or {}))


def test_the_host_launches_two_operations_a_window_beside_its_graph_and_few_a_batch(
    windowed: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch takes the host up to 20 us, as long as a device computes a step of a few rows."""
    graphs = StepGraphs(windowed.bilm.stacks, lambda compute: lambda: None, ROWS)
    monkeypatch.setattr(windowed.bilm, "graphs", graphs)
    monkeypatch.setattr(windowed.bilm, "is_on_cpu", False)

    def launches(windows: int) -> int:
        sentences = [["word"] * n for n in range(WINDOW * windows, WINDOW * windows - 6, -1)]
        windowed.embed(sentences)
        with (found := Launches()):  # type: ignore[no-untyped-call]
            windowed.embed(sentences)
        return found.count

    one = launches(1)
    assert one <= 12
    assert launches(4) == one + 3 * 2
