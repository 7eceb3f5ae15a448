"""The runner: batches, and failures of a batch and of a device."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.caches import WordCache
from elmo_model.inference.encoder import Encoder
from elmo_model.network.elmo import Origin
from elmo_model.network.state import Representations
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_serve.output import Output
from elmo_serve.workers.messages import Batch, Done, Failed
from elmo_serve.workers.model_worker import DeviceLostError, Runner, is_memory_short
from elmo_serve.workers.shared_memory import SharedMemoryPool
from tests.support.checkpoints import write_pair


class AcceleratorError(torch.AcceleratorError):
    """An error of the accelerator with the error code that torch gives it."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.error_code = code


class FailingNetwork:
    """A network that raises an exception for every batch."""

    origin = Origin("failing", "none", "0")
    layers, dimension, parameter_count = 3, 8, 0
    precision, kernel = "float32", "none"
    alphabet = Utf8Alphabet()

    def __init__(self, error: Exception) -> None:
        self.word_cache = WordCache(0)
        self._error = error

    def encode_whole(
        self, sentences: Sequence[Sequence[str]], *, bounded: bool = False
    ) -> Representations:
        raise self._error

    def align(self, vectors: Tensor) -> Tensor:
        return vectors


def run(error: Exception) -> object:
    """Run a batch of one sentence in a worker whose network raises this error."""
    runner = Runner(FailingNetwork(error), torch.device("cpu"))
    segment, memory = SharedMemoryPool().acquire(1024)
    batch = Batch(7, (b'["one"]',), (Output(layers=(2,)),), (0,), 3, 3, segment)
    return runner.run(batch, memory)


SHORT_OF_MEMORY = {
    "torch's own type": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
    "an accelerator error with the code": lambda: AcceleratorError("CUDA error: 2", 2),
    "an accelerator error with the text": lambda: AcceleratorError("CUDA error: out of memory", 0),
    "without an error code": lambda: torch.AcceleratorError("CUDA error: out of memory"),
    "the host": MemoryError,
    "the CPU allocator": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you"),
}


@pytest.mark.parametrize("make", SHORT_OF_MEMORY.values(), ids=SHORT_OF_MEMORY)
def test_a_lack_of_memory_fails_the_batch_and_keeps_the_worker(
    make: Callable[[], Exception],
) -> None:
    """F5: CUDA may report a lack of memory as an AcceleratorError, which is not a lost device."""
    failed = run(make())
    assert isinstance(failed, Failed)
    assert (failed.batch, failed.memory) == (7, True)


@pytest.mark.parametrize("code", [700, 0])
def test_another_error_of_the_accelerator_ends_the_worker(code: int) -> None:
    with pytest.raises(DeviceLostError, match="an illegal memory access was encountered"):
        run(AcceleratorError("an illegal memory access\nwas encountered", code))


def test_another_exception_fails_the_batch() -> None:
    failed = run(IndexError("no such row"))
    assert isinstance(failed, Failed)
    assert (failed.memory, failed.reason) == (False, "IndexError: no such row")


def test_a_lack_of_memory_on_a_cpu_is_recognised_by_its_text() -> None:
    with pytest.raises(RuntimeError) as full:
        torch.empty(1 << 60, dtype=torch.uint8)
    with pytest.raises(RuntimeError) as wrong:
        torch.empty(2) @ torch.empty(3)

    assert is_memory_short(full.value)
    assert not is_memory_short(wrong.value)


def test_a_batch_is_written_to_its_memory_and_counts_its_words(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)))
    runner = Runner(encoder, torch.device("cpu"))
    outputs = (Output(layers=(2,)), Output(layers=(0, 1, 2), stacked=True, dtype="float16"))
    segment, memory = SharedMemoryPool().acquire(1024)
    texts = (b'["one","two"]', b'["two"]')
    done = runner.run(Batch(1, texts, outputs, (0, 64), 7, 8, segment), memory)

    assert isinstance(done, Done)
    assert (done.cache_hits, done.cache_misses, done.not_finite) == (0, 2, ())
    first, second = encoder.embed([["one", "two"], ["two"]])
    found = np.frombuffer(memory, np.float32, 16).reshape(2, 8)
    np.testing.assert_array_equal(found, first[2].numpy())
    halves = np.frombuffer(memory, np.float16, 24, offset=64).reshape(3, 1, 8)
    np.testing.assert_array_equal(halves, second.numpy().astype(np.float16))
