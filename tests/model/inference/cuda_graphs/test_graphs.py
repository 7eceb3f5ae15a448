"""On a CUDA device: the published vectors, and graphs that give what the loop over time gives."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.elmo import Elmo
from elmo_model.inference.cuda_graphs.gates import agree
from elmo_model.inference.cuda_graphs.graphs import Graphs
from elmo_model.inference.cuda_graphs.plan import Shape
from tests.support import golden
from tests.support.checkpoints import write_pair

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("default::UserWarning"),  # Triton's, of its settings
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = torch.device("cuda:0")
# Of the largest value.
PRECISIONS = [("float32", 1e-4), ("bfloat16", 0.1), ("float16", 0.02)]
WORDS = [f"w{number}" for number in range(70)]
TEXTS = [WORDS[: length % 71] for length in range(0, 2000, 7)]


class Counting(Graphs):
    """Counts what it records."""

    recordings = 0

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        self.recordings += 1
        return super().record(compute)


def on_cuda(path: Path, precision: str = "float32") -> Elmo:
    return load(path).to(DEVICE).prepare(precision)


def furthest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Return the largest difference, of the largest value."""
    a, b = (torch.cat(each, dim=1).cpu() for each in (ours, theirs))
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
def test_vectors_are_those_of_allennlp(precision: str, tolerance: float) -> None:
    elmo = on_cuda(golden.SMALL, precision)
    expected = golden.arrays("stateless_f64")
    for batch, members, sentences in golden.batches():
        found = elmo.embed(sentences)
        for member, layers in zip(members, found, strict=True):
            answer = expected[f"b{batch}_s{member}_full"][:, 1:-1]
            allowed = tolerance * max(1.0, float(np.abs(answer).max(initial=0)))
            np.testing.assert_allclose(layers.cpu().numpy(), answer, rtol=0, atol=allowed)
    assert elmo.bilm.recordings.are_used


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("form", [{}, {"layers": 3, "skip": False}, {"cell": 4}, {"cell": 520}])
def test_graphs_give_what_the_loop_gives(
    tmp_path: Path, form: dict[str, int], precision: str, tolerance: float
) -> None:
    elmo = on_cuda(write_pair(tmp_path, **form), precision)  # type: ignore[arg-type]
    graphs = elmo.embed(TEXTS)
    assert elmo.bilm.recordings.are_used

    elmo.bilm.recordings.stop("to compare")

    assert furthest(graphs, elmo.embed(TEXTS)) < tolerance


def test_graphs_are_reused_and_none_spoils_another(tmp_path: Path) -> None:
    elmo = on_cuda(write_pair(tmp_path))
    recorder = Counting(DEVICE)
    elmo.bilm.record_by(recorder)
    few, many = TEXTS[:3], TEXTS[:100]
    first = elmo.embed(few), elmo.embed(many)
    recorded = recorder.recordings

    elmo.bilm.recordings.make()
    again = elmo.embed(few), elmo.embed(many)

    assert 0 < recorded < recorder.recordings == len(Shape.every())
    for before, after in zip(first, again, strict=True):
        assert furthest(after, before) < 1e-5


def test_another_stream_than_that_of_the_capture_may_replay(tmp_path: Path) -> None:
    elmo = on_cuda(write_pair(tmp_path))
    expected = elmo.embed(TEXTS)
    torch.cuda.synchronize(DEVICE)
    other = torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(other):
        found = elmo.embed(TEXTS)
    torch.cuda.synchronize(DEVICE)
    assert furthest(found, expected) < 1e-5


def test_a_capture_that_fails_leaves_the_device_in_order(tmp_path: Path) -> None:
    def waits() -> None:
        torch.cuda.synchronize(DEVICE)  # what no capture permits

    graphs, stream = Graphs(DEVICE), torch.cuda.current_stream(DEVICE)
    with pytest.raises(RuntimeError):
        graphs.record(waits)

    assert torch.cuda.current_stream(DEVICE) == stream
    torch.cuda.empty_cache()  # which raises while a capture is under way
    elmo = on_cuda(write_pair(tmp_path))
    assert len(elmo.embed(TEXTS[:9])) == 9
    assert elmo.bilm.recordings.are_used


def test_a_network_that_moves_is_recorded_anew(tmp_path: Path) -> None:
    elmo = on_cuda(write_pair(tmp_path))
    expected = elmo.embed(TEXTS[:9])
    elmo.cpu()
    assert not elmo.bilm.recordings.are_used
    assert furthest(elmo.embed(TEXTS[:9]), expected) < 1e-4
    elmo.to(DEVICE)
    assert elmo.bilm.recordings.are_used
    assert furthest(elmo.embed(TEXTS[:9]), expected) < 1e-4


def test_the_fused_kernel_agrees_with_the_plain_step_on_the_device() -> None:
    pytest.importorskip("triton")
    from elmo_model.inference.cuda_graphs.fused_gates import fused  # noqa: PLC0415

    assert agree(fused, DEVICE)
