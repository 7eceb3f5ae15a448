"""On a CUDA device: the published vectors, and graphs that give the vectors of the loop."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.cuda_graphs.chunked_bilm import ChunkedBiLM
from elmo_model.inference.cuda_graphs.cuda_capturer import CudaCapturer
from elmo_model.inference.cuda_graphs.gate_update import agree
from elmo_model.inference.cuda_graphs.plan import Shape
from elmo_model.inference.encoder import Encoder
from tests.support import golden
from tests.support.checkpoints import write_pair

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("default::UserWarning"),  # Triton's, of its settings
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = torch.device("cuda:0")
# Tolerances as a share of the largest value.
PRECISIONS = [("float32", 1e-4), ("bfloat16", 0.1), ("float16", 0.02)]
WORDS = [f"w{number}" for number in range(70)]
TEXTS = [WORDS[: length % 71] for length in range(0, 2000, 7)]


class Counting(CudaCapturer):
    """Counts its captures."""

    captures = 0

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        self.captures += 1
        return super().capture(compute)


def on_cuda(path: Path, precision: str = "float32") -> Encoder:
    encoder = Encoder.of(load(path).to(DEVICE), precision, cuda_graphs=True)
    assert encoder.graphs is not None
    return encoder


def furthest(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Return the largest difference as a share of the largest value."""
    a, b = (torch.cat(each, dim=1).cpu() for each in (ours, theirs))
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
def test_vectors_are_those_of_allennlp(precision: str, tolerance: float) -> None:
    encoder = on_cuda(golden.SMALL, precision)
    expected = golden.arrays("stateless_f64")
    for batch, members, sentences in golden.batches():
        found = encoder.embed(sentences)
        for member, layers in zip(members, found, strict=True):
            answer = expected[f"b{batch}_s{member}_full"][:, 1:-1]
            allowed = tolerance * max(1.0, float(np.abs(answer).max(initial=0)))
            np.testing.assert_allclose(layers.cpu().numpy(), answer, rtol=0, atol=allowed)


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("form", [{}, {"layers": 3, "skip": False}, {"cell": 4}, {"cell": 520}])
def test_graphs_give_the_vectors_of_the_loop(
    tmp_path: Path, form: dict[str, int], precision: str, tolerance: float
) -> None:
    encoder = on_cuda(write_pair(tmp_path, **form), precision)  # type: ignore[arg-type]
    loop = encoder.without_cuda_graphs()
    assert furthest(encoder.embed(TEXTS), loop.embed(TEXTS)) < tolerance


@torch.inference_mode()
def test_graphs_are_reused_and_do_not_change_each_other(tmp_path: Path) -> None:
    loop = on_cuda(write_pair(tmp_path)).without_cuda_graphs()
    capturer = Counting(DEVICE)
    graphs = ChunkedBiLM(loop.bilm, capturer)
    encoder = replace(loop, graphs=graphs)
    few, many = TEXTS[:3], TEXTS[:100]
    first = encoder.embed(few), encoder.embed(many)
    captures = capturer.captures

    graphs.capture_all()
    again = encoder.embed(few), encoder.embed(many)

    assert 0 < captures < capturer.captures == len(Shape.every())
    for before, after in zip(first, again, strict=True):
        assert furthest(after, before) < 1e-5


def test_graphs_may_be_replayed_on_another_stream(tmp_path: Path) -> None:
    encoder = on_cuda(write_pair(tmp_path))
    expected = encoder.embed(TEXTS)
    torch.cuda.synchronize(DEVICE)
    other = torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(other):
        found = encoder.embed(TEXTS)
    torch.cuda.synchronize(DEVICE)
    assert furthest(found, expected) < 1e-5


def test_a_capture_that_fails_leaves_the_device_in_order(tmp_path: Path) -> None:
    def waits() -> None:
        torch.cuda.synchronize(DEVICE)  # which no capture permits

    capturer, stream = CudaCapturer(DEVICE), torch.cuda.current_stream(DEVICE)
    with pytest.raises(RuntimeError):
        capturer.capture(waits)

    assert torch.cuda.current_stream(DEVICE) == stream
    torch.cuda.empty_cache()  # which raises while a capture is under way
    encoder = on_cuda(write_pair(tmp_path))
    assert len(encoder.embed(TEXTS[:9])) == 9


def test_the_fused_kernel_agrees_with_the_plain_update_on_the_device() -> None:
    pytest.importorskip("triton")
    from elmo_model.inference.cuda_graphs.fused_gates import fused  # noqa: PLC0415

    assert agree(fused, DEVICE)
