"""The network behind a worker: batches of sentences in, vectors in shared memory out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import tokenization_of
from elmo_model.network.description import Centre
from elmo_serve.processes.arena import Bytes, view
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.heartbeat import Steps
from elmo_serve.selection import NAMED
from elmo_serve.workers.language import LanguageModel
from elmo_serve.workers.messages import Batch, Done, Drop, Failed, Message, ModelInfo, WarmUp
from elmo_serve.workers.staging import Staging
from elmo_serve.workers.vectors import Control, vectors_in_steps

_CUDA_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation

_SHORT_OF_MEMORY = (
    *("alloc_cpu.cpp", "can't allocate memory"),
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
)

_PART_NUMBERS = 1 << 20  # of vectors that are looked through at once


class DeviceLostError(Exception):
    """This process cannot use its device any more; a new process may be able to."""


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A batch whose vectors are being copied from the device to shared memory.

    `done` is its message without the sentences that are not finite, which `not_finite` has.
    """

    batch: Batch
    done: Done
    not_finite: Future[tuple[int, ...]]


class Runner:
    """A model on a device. Single-threaded: one batch at a time, which urgent ones interrupt."""

    def __init__(
        self,
        network: Encoder,
        device: torch.device,
        warm_up: WarmUp = WarmUp(),  # noqa: B008  # frozen
        centre: Centre | None = None,
        language: LanguageModel | None = None,
    ) -> None:
        self.info = replace(
            model_info(network, centre),
            softmax=None if language is None else language.info,
        )
        self._language = language
        self.warm_up = warm_up
        self._network = network
        self._device = device
        self._copies: deque[DeviceCopy] = deque()  # in the order of their batches
        self._hits, self._misses = network.word_cache.hits, network.word_cache.misses  # reported

    @cached_property
    def _staging(self) -> Staging:
        return Staging(self._device)

    def serve(self, parent: Parent) -> None:
        """Compute batches in the order of their messages, and urgent ones on top of others.

        Raises:
            EOFError: the server has closed the channel.
            DeviceLostError: this process cannot use its device any more.
        """
        waiting: deque[tuple[Batch, Control]] = deque()
        while True:
            if not waiting:
                self._send_copied(parent, wait=not parent.has_message())
                message = parent.receive()
                if isinstance(message, Drop):  # of a batch that has ended
                    continue
                waiting.append((message, self._control(parent)))
            batch, control = waiting[0]
            for seconds in self._answer(batch, parent, control):
                self._send_copied(parent)
                if parent.has_message():
                    self._take(parent.receive(), waiting, parent)
                parent.heart.beat(seconds)
            waiting.popleft()

    def _take(
        self, message: Batch | Drop, waiting: deque[tuple[Batch, Control]], parent: Parent
    ) -> None:
        """Handle a message that came while a batch runs."""
        if isinstance(message, Drop):
            for batch, control in waiting:
                if batch.id == message.batch:
                    control.dropped.update(message.sentences)
        elif message.is_urgent:
            for seconds in self._answer(message, parent, Control(lambda: parent.heart.is_due)):
                parent.heart.beat(seconds)
        else:
            waiting.append((message, self._control(parent)))

    def _control(self, parent: Parent) -> Control:
        """Return the control of a batch that stops for messages, and for those to be sent."""
        return Control(lambda: parent.has_message() or self._has_copied() or parent.heart.is_due)

    def _has_copied(self) -> bool:
        return bool(self._copies) and self._copies[0].not_finite.done()

    def _send_copied(self, parent: Parent, *, wait: bool = False) -> None:
        """Answer the batches whose vectors have been copied, or `wait` for all of them."""
        while self._has_copied() or (wait and self._copies):
            copy = self._copies.popleft()
            try:
                found = copy.not_finite.result()
                message: Message = replace(copy.done, not_finite=found)
            except Exception as error:  # of the device, which computes after it was called
                message = _failure(copy.batch, error)
            parent.send(message)

    def _answer(self, batch: Batch, parent: Parent, control: Control) -> Steps[None]:
        """Compute a batch, with stops, and send its result, or begin to copy its vectors."""
        memory = parent.memory(batch.block)
        result = yield from self._result(batch, memory, control)
        if isinstance(result, DeviceCopy):
            self._copies.append(result)
        else:
            parent.send(result)

    def _layers_in(self, batch: Batch, memory: Bytes, tokens: int) -> Tensor | None:
        """Return the memory of a batch as its layers, where one sentence asks for all of them.

        A long sentence then needs no second copy.
        """
        count, width = self.info.layers, self.info.dimension
        if batch.outputs != (NAMED["all"](count),) or self._device.type != "cpu":
            return None
        return torch.from_numpy(view(memory, batch.offsets[0], (count, tokens, width), "float32"))

    def _result(
        self, batch: Batch, memory: Bytes, control: Control
    ) -> Steps[Done | Failed | DeviceCopy]:
        """Compute a batch, with stops, and write sentence i to `memory` at `batch.offsets[i]`."""
        try:
            sentences = [orjson.loads(text) for text in batch.sentences]
            control = replace(control, layers=self._layers_in(batch, memory, len(sentences[0])))
            with torch.inference_mode():
                vectors = yield from vectors_in_steps(
                    self._network, sentences, batch.outputs, self._language, control
                )
                write = partial(_write, batch, memory, control.dropped)
                if self._device.type == "cpu":
                    return self._done(batch, write(vectors))
                dtypes = [output.dtype for output in batch.outputs]
                not_finite = self._staging.fetch(vectors, dtypes, write)
                return DeviceCopy(batch, self._done(batch, ()), not_finite)
        except Exception as error:  # an exception of the model fails its batch, not the worker
            failed = _failure(batch, error)
        # Not before: within the block the exception holds the frames, which hold the tensors.
        if failed.memory:
            release_memory(self._device)
        return failed

    def _done(self, batch: Batch, not_finite: tuple[int, ...]) -> Done:
        cache = self._network.word_cache
        found, missed = cache.hits - self._hits, cache.misses - self._misses
        self._hits, self._misses = cache.hits, cache.misses
        return Done(batch.id, found, missed, not_finite)


def _failure(batch: Batch, error: Exception) -> Failed:
    """Describe the exception of a batch; raise DeviceLostError if the process is of no more use."""
    memory_short = is_memory_short(error)
    if isinstance(error, torch.AcceleratorError) and not memory_short:
        # After an illegal access, for one, every later call of this process fails too.
        raise DeviceLostError(one_line(error)) from error
    return Failed(batch.id, memory_short, f"{type(error).__name__}: {error}")


def release_memory(device: torch.device) -> None:
    """Give the memory that torch keeps for reuse back to the device, for other processes."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _is_finite(target: NDArray[Any]) -> bool:
    """Tell whether all numbers are finite, with little memory."""
    flat = target.reshape(-1)
    parts = (flat[start : start + _PART_NUMBERS] for start in range(0, flat.size, _PART_NUMBERS))
    return all(np.isfinite(part).all() for part in parts)


def _write(
    batch: Batch,
    memory: Bytes,
    dropped: Collection[int],
    vectors: Sequence[Tensor],
    all_finite: bool = False,
) -> tuple[int, ...]:
    """Write the vectors of a batch, on the CPU; return the sentences that are not finite."""
    not_finite = []
    for index, (own, offset, wanted) in enumerate(
        zip(vectors, batch.offsets, batch.outputs, strict=True)
    ):
        if index in dropped:
            continue
        target = view(memory, offset, tuple(own.shape), wanted.dtype)
        if own.data_ptr() != target.ctypes.data:  # it was not written there at once
            torch.from_numpy(target).copy_(own)
        if not (all_finite or _is_finite(target)):
            not_finite.append(index)
    return tuple(not_finite)


def is_memory_short(error: Exception) -> bool:
    """Tell whether an error means that a device, or the host, is out of memory.

    CUDA reports it as torch.OutOfMemoryError, or as torch.AcceleratorError with its error code.
    cuBLAS, cuDNN and the CPU's allocator raise a RuntimeError without a type of its own; the text
    of the last one ends at the first number, the line of that file, where usearch was imported
    before torch.
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, torch.AcceleratorError):
        code = getattr(error, "error_code", None)
        return code == _CUDA_OUT_OF_MEMORY or "out of memory" in str(error)
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _SHORT_OF_MEMORY)


def model_info(network: Encoder, centre: Centre | None = None) -> ModelInfo:
    """Describe a network that is served."""
    origin = network.origin
    tokenizer, language = tokenization_of(origin)
    return ModelInfo(
        name=origin.name,
        revision=origin.revision,
        format=origin.format,
        layers=network.config.layers,
        dimension=network.config.dimension,
        parameters=network.config.parameter_count,
        precision=network.precision,
        kernel=network.kernel,
        tokenizer=tokenizer,
        language=language,
        centre=centre,
        trained=origin.description.trained,
    )


def one_line(error: Exception) -> str:
    """Return the text of an error without line breaks."""
    return " ".join(str(error).split())
