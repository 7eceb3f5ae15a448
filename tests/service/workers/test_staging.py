"""Vectors that are copied to the host while the next batch is launched.

`tests.support.placement` runs a worker with a device that is no CPU.
"""

import pytest
import torch
from torch import Tensor

from elmo_serve.workers.staging import Staging
from tests.support.clock import LateExecutor


def copies(vectors: list[Tensor], all_finite: bool) -> tuple[list[Tensor], bool]:
    return [each.clone() for each in vectors], all_finite


@pytest.mark.parametrize("wrong", [None, torch.nan, torch.inf, -torch.inf])
def test_vectors_have_their_shapes_and_dtypes_and_are_known_to_be_finite(
    wrong: float | None,
) -> None:
    vectors = [torch.randn(3, 2, 4), torch.randn(3), torch.randn(0, 5), torch.randn(2, 7)]
    dtypes = ["float32", "float16", "float32", "float16"]
    if wrong is not None:
        vectors[3][1, 2] = wrong
    text = torch.tensor([7, 8], dtype=torch.uint8)
    staging = Staging(torch.device("cpu"))
    host, all_finite = staging.fetch([*vectors, text], [*dtypes, "uint8"], copies).result()

    assert all_finite == (wrong is None)
    assert torch.equal(host.pop(), text)
    for found, own, dtype in zip(host, vectors, dtypes, strict=True):
        assert found.dtype == getattr(torch, dtype) and found.shape == own.shape
        assert torch.equal(found.nan_to_num(), own.to(found.dtype).nan_to_num())


def test_a_batch_of_text_alone_is_not_copied() -> None:
    text = torch.tensor([7], dtype=torch.uint8)
    ((host,), all_finite) = Staging(torch.device("cpu")).fetch([text], ["uint8"], copies).result()
    assert torch.equal(host, text) and not all_finite


def test_a_buffer_is_read_before_the_next_batch_but_one_is_copied_to_it() -> None:
    staging = Staging(torch.device("cpu"), LateExecutor())
    sizes = (5, 3, 9, 9, 2)
    calls = [
        staging.fetch([torch.full((size,), float(number))], ["float32"], copies)
        for number, size in enumerate(sizes)
    ]
    assert [call.done() for call in calls] == [True, True, True, False, False]
    for number, (call, size) in enumerate(zip(calls, sizes, strict=True)):
        assert call.exception() is None
        assert call.result()[0][0].tolist() == [number] * size


def test_a_batch_that_fails_leaves_its_buffer_to_the_next_one() -> None:
    def fail(vectors: list[Tensor], all_finite: bool) -> None:
        raise IndexError("no such row")

    staging = Staging(torch.device("cpu"))
    for number in range(4):
        vectors = [torch.full((number + 1,), float(number))]
        with pytest.raises(IndexError):
            staging.fetch(vectors, ["float32"], fail).result()
        found, _ = staging.fetch(vectors, ["float32"], copies).result()
        assert torch.equal(found[0], vectors[0])
