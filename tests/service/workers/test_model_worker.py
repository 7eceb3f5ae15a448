"""The runner: batches, and failures of a batch and of a device."""

import re
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Never, cast

import numpy as np
import orjson
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.inference.cache import WordCache
from elmo_model.inference.encoder import Encoder
from elmo_model.network.config import ElmoConfig, LSTMConfig, WordsConfig
from elmo_model.network.elmo import Origin
from elmo_model.text.alphabets import Utf8Alphabet
from elmo_serve.processes.arena import Arena, Bytes
from elmo_serve.selection import Output
from elmo_serve.workers.messages import Batch, Done, Drop, Failed
from elmo_serve.workers.model_worker import DeviceLostError, Runner, is_memory_short
from tests.support.checkpoints import write_pair
from tests.support.workers import served


class AcceleratorError(torch.AcceleratorError):
    """An error of the accelerator with the error code that torch gives it."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.error_code = code


class FailingNetwork:
    """A network that raises an exception for every batch."""

    origin = Origin("failing", "none", "0")
    config = ElmoConfig(None, LSTMConfig(2, 8, 4, 3.0, 3.0, True), WordsConfig(10, 4, False))
    precision, kernel = "float32", "none"
    alphabet = Utf8Alphabet()

    def __init__(self, error: Exception) -> None:
        self.word_cache = WordCache(0)
        self._error = error

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        bounded: bool = False,
        layers: Tensor | None = None,
    ) -> Never:
        raise self._error


def run(error: Exception) -> object:
    """Run a batch of one sentence in a worker whose network raises this error."""
    runner = Runner(cast(Encoder, FailingNetwork(error)), torch.device("cpu"))
    block = Arena().acquire(1024)
    batch = Batch(7, (b'["one"]',), (Output(layers=(2,)),), (0,), 3, 3, block)
    (answer,) = served(runner, batch)
    return answer


SHORT_OF_MEMORY = {
    "torch's own type": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
    "an accelerator error with the code": lambda: AcceleratorError("CUDA error: 2", 2),
    "an accelerator error with the text": lambda: AcceleratorError("CUDA error: out of memory", 0),
    "without an error code": lambda: torch.AcceleratorError("CUDA error: out of memory"),
    "the host": MemoryError,
    "cuBLAS": lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublas"),
    "cuDNN": lambda: RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "the CPU allocator": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you"),
}


@pytest.mark.parametrize("make", SHORT_OF_MEMORY.values(), ids=SHORT_OF_MEMORY)
def test_a_lack_of_memory_fails_the_batch_and_keeps_the_worker(
    make: Callable[[], Exception],
) -> None:
    """CUDA may report a lack of memory as an AcceleratorError, which is not a lost device."""
    failed = run(make())
    assert isinstance(failed, Failed)
    assert (failed.batch, failed.memory) == (7, True)


def test_the_memory_of_a_failed_batch_is_free_before_it_is_given_back_to_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache can give back only what no tensor holds: not one in a frame of the exception."""
    tensors: list[weakref.ref[Tensor]] = []

    class Network(FailingNetwork):
        def encode(self, sentences: object, **options: object) -> Never:
            held = torch.zeros(3)
            tensors.append(weakref.ref(held))
            raise torch.OutOfMemoryError("CUDA out of memory")

    alive: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(tensors[0]() is not None))
    network = Network(torch.OutOfMemoryError())
    block = Arena().acquire(1024)
    batch = Batch(7, (b'["one"]',), (Output(layers=(2,)),), (0,), 3, 3, block)
    served(Runner(cast(Encoder, network), torch.device("cuda")), batch)

    assert alive == [False]


@pytest.mark.parametrize("code", [700, 0])
def test_another_error_of_the_accelerator_ends_the_worker(code: int) -> None:
    with pytest.raises(DeviceLostError, match="illegal memory access"):
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
    block = Arena().acquire(1024)
    texts = (b'["one","two"]', b'["two"]')
    (done,) = served(runner, Batch(1, texts, outputs, (0, 64), 7, 8, block))

    assert isinstance(done, Done)
    assert (done.cache_hits, done.cache_misses, done.not_finite) == (0, 2, ())
    first, second = encoder.embed([["one", "two"], ["two"]])
    found = np.frombuffer(block.array, np.float32, 16).reshape(2, 8)
    np.testing.assert_array_equal(found, first[2].numpy())
    halves = np.frombuffer(block.array, np.float16, 24, offset=64).reshape(3, 1, 8)
    np.testing.assert_array_equal(halves, second.numpy().astype(np.float16))


_CLEAR_REFS = Path("/proc/self/clear_refs")

ALL = Output(layers=(0, 1, 2), stacked=True)


def batch_of(
    number: int, sentences: list[list[str]], *, is_urgent: bool = False, dimension: int = 8
) -> tuple[Batch, list[Bytes]]:
    """Return a batch that asks for all layers, and the memory of each sentence."""
    sizes = [ALL.size(len(sentence), dimension) for sentence in sentences]
    ends = np.cumsum(sizes).tolist()
    block = Arena().acquire(ends[-1])
    offsets = tuple(end - size for end, size in zip(ends, sizes, strict=True))
    texts, cost = tuple(map(orjson.dumps, sentences)), sum(map(len, sentences))
    outputs = (ALL,) * len(sentences)
    batch = Batch(number, texts, outputs, offsets, cost, cost, block, is_urgent)
    return batch, [block.array[end - size : end] for end, size in zip(ends, sizes, strict=True)]


@pytest.mark.parametrize("gate_cache_bytes", [0, 4_000, 1_000_000])
def test_an_interrupted_batch_has_the_same_bits_and_comes_after_the_urgent_one(
    tmp_path: Path, gate_cache_bytes: int
) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)), gate_cache_bytes=gate_cache_bytes)
    sentences = [[f"{row}-{column}" for column in range(100)] for row in range(5)]
    alone, expected = batch_of(1, sentences)
    served(Runner(encoder, torch.device("cpu")), alone)

    bulk, found = batch_of(2, sentences)
    other, _ = batch_of(3, [["other"]])
    urgent = [batch_of(number, [["urgent", f"{number}"]], is_urgent=True) for number in (4, 5)]
    answers = served(Runner(encoder, torch.device("cpu")), bulk, urgent[0][0], other, urgent[1][0])

    assert all(isinstance(answer, Done) for answer in answers)
    assert [answer.batch for answer in answers] == [4, 5, 2, 3]  # type: ignore[union-attr]
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
    for batch, (memory,) in urgent:
        wanted = encoder.embed([orjson.loads(batch.sentences[0])])[0].numpy()
        assert memory.tobytes() == wanted.tobytes()


def test_a_sentence_that_is_dropped_is_computed_no_further(tmp_path: Path) -> None:
    """Of the batch that runs, and of one that waits behind it."""
    encoder = Encoder.of(load(write_pair(tmp_path)))
    sentences = [[f"{column}" for column in range(length)] for length in (200, 90)]
    alone, (_, expected) = batch_of(1, sentences)
    served(Runner(encoder, torch.device("cpu")), alone)
    running, (dropped, kept) = batch_of(2, sentences)
    waiting, (_, dropped_later) = batch_of(3, sentences)
    drops = Drop(9, (1,)), Drop(2, (0,)), Drop(3, (1,))
    answers = served(Runner(encoder, torch.device("cpu")), running, waiting, *drops)

    assert all(isinstance(answer, Done) and answer.not_finite == () for answer in answers)
    assert np.array_equal(kept, expected)
    assert not dropped.any()
    assert not dropped_later.any()


@pytest.mark.skipif(not _CLEAR_REFS.exists(), reason="the peak of a process is that of Linux")
def test_the_vectors_of_a_long_sentence_are_in_memory_once(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path, cell=16, projection=512)), gate_cache_bytes=0)
    words = [f"w{place % 50}" for place in range(2_000)]
    short, _ = batch_of(1, [words[:200]], dimension=1_024)
    batch, (memory,) = batch_of(2, [words], dimension=1_024)
    served(Runner(encoder, torch.device("cpu")), short)
    _CLEAR_REFS.write_text("5")  # the peak is what is in use now
    before = peak_bytes()
    (done,) = served(Runner(encoder, torch.device("cpu")), batch)
    more = peak_bytes() - before

    assert isinstance(done, Done)
    assert np.isfinite(memory.view(np.float32)).all()
    assert more < 1.5 * memory.nbytes


def peak_bytes() -> int:
    """Return the most memory that this process has had since the peak was last reset."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) * 1024
