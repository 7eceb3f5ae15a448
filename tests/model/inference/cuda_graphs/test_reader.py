"""Reading by recordings gives what the loop over time gives; here what is recorded is run again."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_model.checkpoints import load
from elmo_model.config import LSTMConfig
from elmo_model.inference.cuda_graphs.plan import Shape
from elmo_model.inference.linear import Precision
from elmo_model.layers.bilm import BiLM
from elmo_model.state import State
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


class Again:
    """Runs again what it is given to record, and counts how often it is given something."""

    def __init__(self) -> None:
        self.recordings = 0

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        first()
        second()

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        self.recordings += 1
        return compute


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the operations of a run, and repeats them on the tensors they had, as a graph does.

    What they made is spoilt before each repetition: graphs that share a pool do so to each other.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Callable[..., Any], Any, Any, Any]] = []
        self.made: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        assert tensors(result), f"{func} asks for a number, which no graph can"
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
            if made:  # neither a view, which lies there, nor a change in place
                for old, new in zip(made, again, strict=True):
                    old.copy_(new)


class Taping(Again):
    """Records operations, and runs nothing twice of what called them."""

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        tape = Tape()
        with tape:
            compute()
        super().record(compute)
        return tape.repeat


def tensors(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor)]


class Refusing(Again):
    """Records so many shapes and no more."""

    def __init__(self, shapes: int) -> None:
        super().__init__()
        self.shapes = shapes

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        if self.recordings == self.shapes:
            raise RuntimeError("operation not permitted when stream is capturing")
        return super().record(compute)


class Forgetting(Again):
    """Makes recordings in which nothing happens."""

    def record(self, compute: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


def bilm(recorder: Again, precision: Precision = "float32", **changes: object) -> BiLM:
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
    (network if precision == "float16" else network.double()).eval().prepare(precision)
    network.record_by(recorder)
    return network


def sentences(
    rows: int, longest: int, dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths: list[int] = torch.randint(1, longest + 1, (rows,), generator=generator).tolist()
    return torch.randn(sum(lengths), WIDTH, generator=generator).to(dtype), lengths


def start(network: BiLM, like: Tensor, rows: int) -> State:
    zero = network.zero_state(like, rows)
    generator = torch.Generator().manual_seed(7)
    return State(
        *(torch.randn(each.shape, generator=generator).to(each.dtype) for each in (zero.h, zero.c))
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "longest"), [(1, 1), (1, 70), (5, 3), (40, 70), (33, 20)])
@torch.inference_mode()
def test_chunks_give_what_the_loop_gives(form: dict[str, Any], rows: int, longest: int) -> None:
    network = bilm(Again(), **form)
    tokens, lengths = sentences(rows, longest, torch.float64)

    for state in (None, start(network, tokens, rows)):
        expected, _ = network(tokens, lengths, state)
        found = network.read(tokens, lengths, state)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert network.recordings.are_used


@torch.inference_mode()
def test_more_rows_than_the_widest_shape_has_are_read_in_groups() -> None:
    network = bilm(Again())
    tokens, lengths = sentences(1100, 6, torch.float64)
    state = start(network, tokens, 1100)

    found = network.read(tokens, lengths, state)

    torch.testing.assert_close(found, network(tokens, lengths, state)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", [{}, {"cell": WIDTH, "projected": False, "projection_clip": None}])
@torch.inference_mode()
def test_chunks_of_16_bit_products_keep_float32_elsewhere(form: dict[str, Any]) -> None:
    network = bilm(Again(), "float16", **form)
    tokens, lengths = sentences(40, 70, torch.float32)

    found = network.read(tokens, lengths)

    assert found.dtype == torch.float32
    torch.testing.assert_close(found, network(tokens, lengths)[0], rtol=0, atol=0.02)


@pytest.mark.parametrize("form", [{}, {"cell": WIDTH, "projected": False, "projection_clip": None}])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-12), ("float16", 0.02)])
@torch.inference_mode()
def test_the_operations_of_a_chunk_alone_repeat_it(
    form: dict[str, Any], precision: Precision, tolerance: float
) -> None:
    network = bilm(Taping(), precision, **form)
    dtype = torch.float32 if precision == "float16" else torch.float64
    for rows in (40, 3, 40):
        tokens, lengths = sentences(rows, 30, dtype, seed=rows)
        state = start(network, tokens, rows)

        found = network.read(tokens, lengths, state)

        expected, _ = network(tokens, lengths, state)
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    assert network.recordings.are_used


@torch.inference_mode()
def test_distinct_tokens_are_looked_up() -> None:
    network = bilm(Again())
    tokens, _ = sentences(3, 5, torch.float64)
    index = torch.tensor([0, 1, 0, 2, 2, 1, 0])

    found = network.read(tokens, [4, 3], None, index)

    torch.testing.assert_close(found, network(tokens[index], [4, 3])[0], rtol=0, atol=1e-12)


@torch.inference_mode()
def test_one_batch_leaves_nothing_to_the_next() -> None:
    network = bilm(Again())
    poison, lengths = sentences(30, 20, torch.float64)
    network.read(poison * torch.nan, lengths, None)
    tokens, lengths = sentences(3, 9, torch.float64)

    found = network.read(tokens, lengths)

    torch.testing.assert_close(found, network(tokens, lengths)[0], rtol=0, atol=1e-12)


@torch.inference_mode()
def test_a_shape_is_recorded_once_and_all_of_them_on_demand() -> None:
    recorder = Again()
    network = bilm(recorder)
    batches = [sentences(rows, 30, torch.float64, seed=rows) for rows in (3, 20, 3, 20)]
    counts = []
    for tokens, lengths in batches:
        network.read(tokens, lengths)
        counts.append(recorder.recordings)

    assert 0 < counts[0] < counts[1] == counts[2] == counts[3]
    network.recordings.make()
    network.recordings.make()
    assert recorder.recordings == len(Shape.every())


def test_outside_of_inference_mode_nothing_is_recorded() -> None:
    recorder = Again()
    network = bilm(recorder)
    tokens, lengths = sentences(3, 5, torch.float64)
    with torch.no_grad():
        network.read(tokens, lengths)
    assert recorder.recordings == 0


@pytest.mark.parametrize("recorder", [Refusing(0), Refusing(1), Forgetting()])
@torch.inference_mode()
def test_what_cannot_be_recorded_is_read_by_the_loop_and_said_once(
    recorder: Again, caplog: pytest.LogCaptureFixture
) -> None:
    network = bilm(recorder)
    tokens, lengths = sentences(20, 30, torch.float64)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = network.read(tokens, lengths)
            expected, _ = network(tokens, lengths)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    (record,) = caplog.records
    assert (
        record.name == "elmo_model.inference.cuda_graphs.recordings"
        and "slower" in record.getMessage()
    )
    assert not network.recordings.are_used


def test_recordings_go_with_the_memory_they_read() -> None:
    network = bilm(Again())
    network.to(torch.float32)
    assert not network.recordings.are_used


def test_elmo_reads_by_recordings_from_its_opening_state(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(70)]
    texts = [words[:length] for length in (0, 70, 3, 1, 20, 0, 33, 17, 16)]
    elmo = load(write_pair(tmp_path, layers=3)).double().prepare()
    expected = elmo.embed(texts)
    recorder = Again()
    elmo.bilm.record_by(recorder)

    found = elmo.embed(texts)

    assert recorder.recordings > 0
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
