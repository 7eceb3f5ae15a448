"""The network behind a worker: batches of sentences in, vectors in shared memory out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import orjson
import torch
from torch import Tensor

from elmo_model.alphabets import Alphabet, Lexicon, Utf8Alphabet
from elmo_model.catalogue import tokenization
from elmo_model.centre import Centre, centre_of
from elmo_model.checkpoints import CheckpointError
from elmo_model.elmo import Elmo, Origin
from elmo_model.inference.cuda_graphs.capture import warn_unused
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.malloc import keep_freed_memory
from elmo_model.inference.word_cache import WordCache
from elmo_model.precision import FORMATS, precision_of
from elmo_model.pretrained import open_model
from elmo_model.word_vectors.source import WordVectorsError
from elmo_model.word_vectors.word_vectors import WordVectors
from elmo_serve.token_warnings import TokenLimit
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Failed,
    LoadFailed,
    Message,
    ModelInfo,
    Ready,
    RunnerSettings,
)
from elmo_serve.workers.shared_memory import Bytes, view
from elmo_serve.workers.vectors import Network, Static, on_host, static_vectors, vectors_of

_SENTENCE = ("A", "bank", "by", "the", "river", "naïve", "東京", "")
# Three sentences of different lengths, one of them longer than the largest chunk of a CUDA graph.
_SELF_TEST = (_SENTENCE, _SENTENCE[:3], 2 * _SENTENCE + _SENTENCE[:4])
_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation


class ServedNetwork(Network, Protocol):
    """What a runner asks of its network: an `Encoder` has it."""

    @property
    def origin(self) -> Origin:
        """Where the weights come from."""

    @property
    def layers(self) -> int:
        """L + 1: the token layer and the layers of the biLM."""

    @property
    def dimension(self) -> int:
        """2P, the width of every vector."""

    @property
    def alphabet(self) -> Alphabet:
        """The alphabet, which cuts long tokens."""

    @property
    def parameter_count(self) -> int:
        """The number of learnt parameters."""

    @property
    def word_cache(self) -> WordCache:
        """The cache of word vectors."""


class UnfitModelError(Exception):
    """The model cannot be served from this device; the message is one line."""


class DeviceLostError(Exception):
    """This process cannot use its device any more; a new process may be able to."""


class Runner:
    """A model on a device. Single-threaded: one batch at a time."""

    def __init__(
        self,
        network: ServedNetwork,
        precision: str,
        device: torch.device,
        seconds_per_token: float,
        centre: Centre | None = None,
        words: WordVectors | None = None,
        path: str = "",
    ) -> None:
        info = model_info(network, precision, centre, path)
        self.info = info if words is None else replace(info, word_vectors=words.info)
        self._words = words
        self.seconds_per_token = seconds_per_token
        self._network = network
        self._device = device

    def run(self, batch: Batch, memory: Bytes) -> Message:
        """Compute a batch and write sentence i to `memory` at `batch.offsets[i]`.

        Raises:
            DeviceLostError: when this process cannot use its device any more.
        """
        cache = self._network.word_cache
        hits, misses, start = cache.hits, cache.misses, time.perf_counter()
        try:
            sentences = [orjson.loads(text) for text in batch.sentences]
            static = static_vectors(self._words, sentences, batch.outputs)
            not_finite = self._write(sentences, batch, static, memory)
        except Exception as error:  # an exception of the model fails its batch, not the worker
            memory_short = is_memory_short(error)
            if isinstance(error, torch.AcceleratorError) and not memory_short:
                # After an illegal access, for one, every later call of this process fails too.
                raise DeviceLostError(_one_line(error)) from error
            seconds = time.perf_counter() - start
            reason = f"{type(error).__name__}: {error}"
            del error  # it holds the frames, which hold the tensors
            if memory_short and self._device.type == "cuda":
                torch.cuda.empty_cache()
            return Failed(batch.id, seconds, memory_short, reason)
        seconds = time.perf_counter() - start
        found, missed = cache.hits - hits, cache.misses - misses
        return Done(batch.id, seconds, found, missed, not_finite, _unknown(static))

    def _write(
        self,
        sentences: Sequence[Sequence[str]],
        batch: Batch,
        static: Sequence[Static | None],
        memory: Bytes,
    ) -> tuple[int, ...]:
        """Write the vectors of a batch; return the sentences whose vectors are not finite."""
        with torch.inference_mode():
            vectors = vectors_of(self._network, sentences, batch.outputs, static)
            vectors = on_host(vectors, [output.dtype for output in batch.outputs])
        not_finite = []
        for index, (own, offset, wanted) in enumerate(
            zip(vectors, batch.offsets, batch.outputs, strict=True)
        ):
            target = view(memory, offset, tuple(own.shape), wanted.dtype)
            torch.from_numpy(target).copy_(own)
            if not np.isfinite(target).all():
                not_finite.append(index)
        return tuple(not_finite)


def _unknown(static: Sequence[Static | None]) -> tuple[int, ...]:
    if not any(static):
        return ()
    return tuple(0 if own is None else own.unknown for own in static)


def is_memory_short(error: Exception) -> bool:
    """Tell whether an error means that a device, or the host, is out of memory.

    CUDA reports it as torch.OutOfMemoryError, or as torch.AcceleratorError with its error code. On
    a CPU torch raises a RuntimeError without a type of its own.
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, torch.AcceleratorError):
        code = getattr(error, "error_code", None)
        return code == _CUDA_OUT_OF_MEMORY or "out of memory" in str(error)
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def model_info(
    network: ServedNetwork,
    precision: str,
    centre: Centre | None = None,
    path: str = "",
) -> ModelInfo:
    """Describe a network that is served in a precision; `path` is where it was loaded from."""
    origin = network.origin
    tokenizer, language = tokenization(origin.name, path)
    return ModelInfo(
        name=origin.name,
        revision=origin.revision,
        format=origin.format,
        layers=network.layers,
        dimension=network.dimension,
        parameters=network.parameter_count,
        precision=precision,
        tokenizer=tokenizer,
        language=language,
        token_limit=_token_limit(network.alphabet),
        centre=centre,
    )


def _token_limit(alphabet: Alphabet) -> TokenLimit | None:
    """Return the length of a token that reaches the network; models of whole words cut none."""
    length = alphabet.max_characters - 2  # without the marks of begin and end
    if isinstance(alphabet, Utf8Alphabet):
        return TokenLimit(length, "bytes")
    return TokenLimit(length, "characters") if isinstance(alphabet, Lexicon) else None


def start(settings: RunnerSettings, *, owns_process: bool = False) -> tuple[Runner | None, Message]:
    """Load the model; return the runner, or None, and the message that tells how it went.

    `owns_process` permits settings of the whole process: the number of torch threads and the
    tuning of the allocator. A worker in a thread of another program leaves both alone.
    """
    try:
        runner = load(settings, owns_process=owns_process)
    except UnfitModelError as error:
        return None, LoadFailed(_one_line(error))
    return runner, Ready(runner.info, runner.seconds_per_token)


def load(settings: RunnerSettings, *, owns_process: bool = False) -> Runner:
    """Load the model, build its encoder, test it, warm it up and compute its centre.

    Raises:
        UnfitModelError: when the model cannot be served from this device.
    """
    if owns_process:
        torch.set_num_threads(settings.threads)
    encoder, expected = _encoder(settings, owns_process=owns_process)
    if owns_process:
        keep_freed_memory()  # now: the network that was loaded has been freed
    encoder = self_test(encoder, expected, settings)
    seconds_per_token = _warm_up(encoder, settings.warm_up_tokens)
    centre = centre_of(encoder, settings.warm_up_tokens)
    device = torch.device(settings.torch_device)
    words, path = _word_vectors(settings), settings.model
    return Runner(encoder, settings.precision, device, seconds_per_token, centre, words, path)


def _word_vectors(settings: RunnerSettings) -> WordVectors | None:
    if not settings.word_vectors:
        return None
    try:
        return WordVectors.open(Path(settings.word_vectors))
    except WordVectorsError as error:
        raise UnfitModelError(str(error)) from error


def _encoder(settings: RunnerSettings, *, owns_process: bool) -> tuple[Encoder, Tensor]:
    """Load the network; return its encoder and the vectors that the encoder should give."""
    try:
        elmo = open_model(settings.model)
    except (CheckpointError, OSError) as error:
        raise UnfitModelError(str(error)) from error
    expected = known_vectors(elmo)
    try:
        encoder = Encoder.of(
            elmo.to(torch.device(settings.torch_device)),
            settings.precision,
            token_cache_size=settings.token_cache_size,
            gate_cache_bytes=settings.gate_cache_bytes,
            threads=settings.threads,
            cuda_graphs=settings.cuda_graphs,
            owns_process=owns_process,
        )
    except (RuntimeError, ValueError) as error:
        raise UnfitModelError(f"{settings.device}, {settings.precision}: {error}") from error
    return encoder, expected


def known_vectors(network: Elmo | Encoder) -> Tensor:
    """Return the vectors that the self-test compares, (L + 1, N, 2P) on the CPU."""
    return torch.cat(network.embed(_SELF_TEST), dim=1).float().cpu()


def self_test(encoder: Encoder, expected: Tensor, settings: RunnerSettings) -> Encoder:
    """Compare the vectors of an encoder with `expected`, and return the encoder to use.

    If CUDA graphs give wrong vectors and the loop over time gives right ones, that is the encoder
    without graphs.

    Raises:
        UnfitModelError: when the vectors differ by more than the precision explains.
    """
    try:
        _compare(expected, known_vectors(encoder), settings)
    except UnfitModelError as error:
        if encoder.graphs is None:
            raise
        warn_unused(str(error))
        return self_test(encoder.without_cuda_graphs(), expected, settings)
    return encoder


def _compare(expected: Tensor, found: Tensor, settings: RunnerSettings) -> None:
    if not torch.isfinite(expected).all():
        raise UnfitModelError(f"{settings.model}: the weights give vectors that are not finite")
    scale = expected.abs().max().clamp(min=1e-6)
    difference = float(((found - expected).abs().max() / scale).nan_to_num(torch.inf))
    allowed = FORMATS[precision_of(settings.precision)].tolerance
    if difference > allowed:
        raise UnfitModelError(
            f"self-test on {settings.device} in {settings.precision}: vectors differ by "
            f"{difference:.2g} of the largest value, allowed is {allowed:.2g}"
        )


def _warm_up(encoder: Encoder, tokens: int) -> float:
    """Run the largest legal batches, so that a lack of memory shows at the start.

    One batch has as many sentences as fit, one has long sentences. Returns the seconds a token of
    the second run of the long batch, when its words are in the caches.
    """
    wide = [[f"{row}"] for row in range(max(1, tokens // 3))]
    encoder.embed(wide)
    length = min(tokens - 2, 126)
    long = [
        [f"{row}-{column}" for column in range(length)] for row in range(tokens // (length + 2))
    ]
    encoder.embed(long)
    start = time.perf_counter()
    _synchronise(encoder.embed(long))
    return (time.perf_counter() - start) / tokens


def _synchronise(vectors: list[Tensor]) -> None:
    """Wait until a device that computes asynchronously has finished."""
    if vectors and vectors[0].device.type == "cuda":
        torch.cuda.synchronize(vectors[0].device)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
