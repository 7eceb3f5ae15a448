"""Captures of CUDA graphs, by torch's own context on a pretend device."""

import pytest
import torch

from elmo_model.inference.graph_capture import GraphCapture
from tests.support.cuda import PretendCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PretendCuda:
    return PretendCuda(monkeypatch)


def invalidated() -> None:
    raise RuntimeError("CUDA error: capturing stream has unjoined work")


def test_a_capture_that_fails_leaves_the_stream_and_names_the_lack_of_memory(
    cuda: PretendCuda,
) -> None:
    """torch's context stays on the capture's stream where the end of the capture raises."""
    capture, before, calls = GraphCapture(torch.device("cuda")), cuda.current, []

    def compute() -> None:
        calls.append(cuda.current)
        if len(calls) % 2 == 0:  # in the capture
            raise torch.OutOfMemoryError

    cuda.fail = invalidated
    with pytest.raises(torch.OutOfMemoryError):
        capture(compute)
    assert cuda.current is before
    with pytest.raises(RuntimeError, match="unjoined"):
        capture(lambda: None)
    assert cuda.current is before
    cuda.fail = lambda: None
    capture(lambda: None)
    assert len(set(map(id, cuda.pools))) == 3  # a pool of a failed capture is not used again


def test_what_a_failed_run_has_launched_is_waited_for(cuda: PretendCuda) -> None:
    """It still writes to the state that the next batch reads."""

    def compute() -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        GraphCapture(torch.device("cuda"))(compute)
    (own,) = cuda.streams
    assert own.waited_for == [0] and cuda.current.waited_for == [own.number]


def test_graphs_share_their_memory_unless_each_has_a_pool_of_its_own(cuda: PretendCuda) -> None:
    for shares_memory in (True, False):
        capture = GraphCapture(torch.device("cuda"), shares_memory=shares_memory)
        for _ in range(2):
            capture(lambda: None)
    shared, again, *own = cuda.pools
    assert shared is again is not None
    assert own == [None, None]  # torch makes one for each
