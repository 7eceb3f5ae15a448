"""Chunks give what the loop over time gives; here a captured chunk is run again on the CPU."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_model.checkpoints import load
from elmo_model.config import LSTMConfig
from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.cuda_graphs.capturer import CaptureError
from elmo_model.inference.cuda_graphs.chunked_bilm import ChunkedBiLM
from elmo_model.inference.cuda_graphs.plan import Shape
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.parallel_directions import ParallelDirections
from elmo_model.inference.word_encoder import DistinctWords
from elmo_model.layers.bilm import BiLM
from elmo_model.precision import Precision
from elmo_model.state import State
from tests.support.capturers import Again
from tests.support.checkpoints import write_pair

WIDTH = 4
FORMS = [
    pytest.param({"layers": layers, "skip": skip}, id=f"{layers} layers, skip {skip}")
    for layers in (1, 2, 3)
    for skip in (True, False)
] + [
    pytest.param({"cell_clip": None, "projection_clip": None}, id="no clips"),
    pytest.param({"cell_clip": 0.3, "projection_clip": 0.2}, id="narrow clips"),
    pytest.param({"cell": WIDTH, "projected": False, "projection_clip": None}, id="no projection"),
    pytest.param({"forget_bias": 0.0}, id="no forget bias"),
]


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations of a run and repeats them on the same tensors, as a graph does.

    Tensors that they allocated are overwritten with NaN before each repetition, as graphs that
    share a memory pool do to each other.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self.made: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        assert tensors(result), f"{func} reads a number back, which no graph can"
        given = {each.untyped_storage().data_ptr() for each in tensors((args, kwargs))}
        made = [each for each in tensors(result) if each.untyped_storage().data_ptr() not in given]
        self.operations.append((func, args, kwargs or {}, made))
        self.made += made
        return result

    def repeat(self) -> None:
        for each in self.made:
            each.fill_(torch.nan)
        for func, args, kwargs, made in self.operations:
            again = tensors(func(*args, **kwargs))
            if made:  # neither a view nor a change in place
                for old, new in zip(made, again, strict=True):
                    old.copy_(new)


class Taping(Again):
    """Captures operations; the captured function itself does not run again."""

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        tape = Tape()
        with tape:
            compute()
        super().capture(compute)
        return tape.repeat


def tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


class Refusing(Again):
    """Captures this many shapes and no more."""

    def __init__(self, shapes: int) -> None:
        super().__init__()
        self.shapes = shapes

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        if self.captures == self.shapes:
            raise RuntimeError("operation not permitted when stream is capturing")
        return super().capture(compute)


class Forgetting(Again):
    """Makes replays in which nothing happens."""

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class Both:
    """A biLM with random weights, as a loop over time and in chunks."""

    def __init__(
        self, capturer: Again, precision: Precision = "float32", **changes: object
    ) -> None:
        values: dict[str, object] = {
            "layers": 2,
            "cell": 6,
            "projection": WIDTH,
            "cell_clip": 3.0,
            "projection_clip": 3.0,
            "skip": True,
        }
        network = BiLM(LSTMConfig(**{**values, **changes}))  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0, 0.7, generator=generator)
        # float64: its products are plain ones on a CPU too
        network = network if precision == "float16" else network.double()
        self.loop = InferenceBiLM(network, precision, ParallelDirections(1))
        self.chunked = ChunkedBiLM(self.loop, capturer)

    def zero(self, like: Tensor, rows: int) -> State:
        return State.zero(self.loop.config, like, rows)

    def agree(
        self, tokens: Tensor, lengths: list[int], state: State, tolerance: float = 1e-12
    ) -> None:
        expected = self.by_loop(tokens, lengths, state)
        found = self.chunked.encode(tokens, lengths, state)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)

    def by_loop(self, tokens: Tensor, lengths: list[int], state: State) -> Tensor:
        words = DistinctWords(("",) * len(tokens), tokens, torch.arange(len(tokens)))
        return self.loop.encode(words, lengths, state)[0]


def sentences(
    rows: int, longest: int, dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths: list[int] = torch.randint(1, longest + 1, (rows,), generator=generator).tolist()
    return torch.randn(sum(lengths), WIDTH, generator=generator).to(dtype), lengths


def start(both: Both, like: Tensor, rows: int) -> State:
    """Return a random state."""
    zero = both.zero(like, rows)
    generator = torch.Generator().manual_seed(7)
    return State(
        *(torch.randn(each.shape, generator=generator).to(each.dtype) for each in (zero.h, zero.c))
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "longest"), [(1, 1), (5, 3), (33, 40)])
@torch.inference_mode()
def test_chunks_give_the_vectors_of_the_loop(form: dict[str, Any], rows: int, longest: int) -> None:
    both = Both(Again(), **form)
    tokens, lengths = sentences(rows, longest, torch.float64)
    for state in (both.zero(tokens, rows), start(both, tokens, rows)):
        both.agree(tokens, lengths, state)


@torch.inference_mode()
def test_more_rows_than_the_widest_shape_are_computed_in_groups() -> None:
    both = Both(Again())
    tokens, lengths = sentences(1100, 6, torch.float64)
    both.agree(tokens, lengths, start(both, tokens, 1100))


@pytest.mark.parametrize("form", [{}, {"cell": WIDTH, "projected": False, "projection_clip": None}])
@torch.inference_mode()
def test_chunks_of_16_bit_products_keep_float32_elsewhere(form: dict[str, Any]) -> None:
    both = Both(Again(), "float16", **form)
    tokens, lengths = sentences(40, 70, torch.float32)
    assert both.chunked.encode(tokens, lengths, both.zero(tokens, 40)).dtype == torch.float32
    both.agree(tokens, lengths, both.zero(tokens, 40), tolerance=0.02)


@pytest.mark.parametrize("form", [{}, {"cell": WIDTH, "projected": False, "projection_clip": None}])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-12), ("float16", 0.02)])
@torch.inference_mode()
def test_the_operations_of_a_chunk_alone_repeat_it(
    form: dict[str, Any], precision: Precision, tolerance: float
) -> None:
    both = Both(Taping(), precision, **form)
    dtype = torch.float32 if precision == "float16" else torch.float64
    for rows in (40, 3, 40):
        tokens, lengths = sentences(rows, 30, dtype, seed=rows)
        both.agree(tokens, lengths, start(both, tokens, rows), tolerance)


@torch.inference_mode()
def test_one_batch_leaves_nothing_to_the_next() -> None:
    both = Both(Again())
    poison, lengths = sentences(30, 20, torch.float64)
    both.chunked.encode(poison * torch.nan, lengths, both.zero(poison, 30))
    tokens, lengths = sentences(3, 9, torch.float64)
    both.agree(tokens, lengths, both.zero(tokens, 3))


@torch.inference_mode()
def test_a_shape_is_captured_once() -> None:
    capturer = Again()
    both = Both(capturer)
    counts = []
    for rows in (3, 20, 3, 20):
        tokens, lengths = sentences(rows, 30, torch.float64, seed=rows)
        both.chunked.encode(tokens, lengths, both.zero(tokens, rows))
        counts.append(capturer.captures)

    assert 0 < counts[0] < counts[1] == counts[2] == counts[3]
    both.chunked.capture_all()
    both.chunked.capture_all()
    assert capturer.captures == len(Shape.every())


@pytest.mark.parametrize("capturer", [Refusing(0), Refusing(1), Forgetting()])
@torch.inference_mode()
def test_a_failed_capture_and_a_wrong_replay_are_errors(capturer: Again) -> None:
    with pytest.raises(CaptureError, match=r"not permitted when|gives other numbers"):
        Both(capturer).chunked.capture_all()


def test_an_encoder_runs_its_chunks_from_its_opening_state(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(70)]
    texts = [words[:length] for length in (0, 70, 3, 1, 20, 0, 33, 17, 16)]
    encoder = Encoder.of(load(write_pair(tmp_path, layers=3)).double())
    capturer = Again()
    chunked = replace(encoder, graphs=ChunkedBiLM(encoder.bilm, capturer))
    for bounded in (False, True):
        captures = capturer.captures
        found = chunked.encode_whole(texts, bounded=bounded)
        assert capturer.captures > captures or bounded
        expected = encoder.encode_whole(texts, bounded=bounded)
        torch.testing.assert_close(found.layers, expected.layers, rtol=0, atol=1e-12)
    assert chunked.embed([[], []])[0].shape == (4, 0, 8)
    assert chunked.without_cuda_graphs().graphs is None
