"""Workers without a process: one without a model behind a gate, a model's runner, a bare child."""

from __future__ import annotations

import asyncio
import math
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from elmo_serve.processes.arena import Block, BlockName, Bytes, view
from elmo_serve.processes.channel import Parent
from elmo_serve.processes.heartbeat import Alive, Heartbeat
from elmo_serve.workers import model_loading
from elmo_serve.workers.messages import (
    Batch,
    Done,
    Drop,
    Failed,
    Message,
    ModelInfo,
    Ready,
    RunnerSettings,
    WarmUp,
)
from elmo_serve.workers.model_worker import Runner

DIMENSION = 4
INFO = ModelInfo("fake", "0", "fake", 3, DIMENSION, 0, "float32")

# A batch with one of these words raises, has a vector that is not finite, kills its worker or makes
# it hang.
RAISES, NAN, DIES, HANGS = "!raises", "!nan", "!dies", "!hangs"

_A_DAY = 86_400.0
"""Seconds of silence that a worker asks for: behind a closed gate it does not count as hung."""


@dataclass(eq=False)
class GatedWorker:
    """Answers each sentence with a number made of its text; see `mark`.

    While `is_open`, a batch takes `seconds_per_token` for each padded token. Otherwise it runs
    until `finish` or `open` is called. An urgent batch interrupts the one that runs.
    """

    seconds_per_token: float = 0.0
    is_open: bool = True
    memory_tokens: float = math.inf  # a larger batch fails for want of device memory
    loads: bool = True
    warm_up: float = 0.0  # seconds a token that it reports at its start; 0 if not measured
    batches: list[Batch] = field(default_factory=list)  # all that have begun
    queue: list[Batch] = field(default_factory=list)  # the first one runs
    drops: list[Drop] = field(default_factory=list)
    is_dead: bool = False
    _timer: asyncio.Handle | None = None
    _due: float = 0.0  # time of the loop; uvloop's handle of a delay of 0 does not know it
    _left: dict[int, float] = field(default_factory=dict)  # seconds of the one that is interrupted

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        self._on_message, self._on_exit = on_message, on_exit
        if self.loads:
            self.report(Ready(INFO, WarmUp(0, self.warm_up)))

    def report(self, message: Message | Alive) -> None:
        """Send a message, as the process of a worker does."""
        asyncio.get_running_loop().call_soon(self._on_message, message)

    def send(self, message: Batch | Drop, /) -> None:
        if isinstance(message, Drop):
            self.drops.append(message)
            return
        assert not self.is_dead, "a dead worker was given work"
        self.queue.insert(0 if message.is_urgent else len(self.queue), message)
        if self.queue[0] is message:
            self._interrupt()
            self._begin()

    def _interrupt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._left[self.queue[1].id] = self._due - asyncio.get_running_loop().time()

    def kill(self) -> None:
        self.die("was killed")

    async def stop(self) -> None:
        if not self.is_dead:
            self.die("stopped")

    def die(self, reason: str) -> None:
        """End, as a process does that was killed."""
        if self._timer is not None:
            self._timer.cancel()
        self.is_dead = True
        asyncio.get_running_loop().call_soon(self._on_exit, reason)

    def close(self) -> None:
        """Let no further batch finish by itself."""
        self.is_open = False

    def open(self) -> None:
        """Finish the batch that runs, and let every other one take its time from now on."""
        self.is_open = True
        if self.queue and not self.is_dead:
            self.finish()

    def finish(self) -> None:
        """Report the batch that runs, and begin the next one."""
        batch = self.queue[0]
        if _holds(batch, DIES):
            self.die("was killed by SIGSEGV")
            return
        self.queue.pop(0)
        self._timer = None
        self._on_message(self._run(batch))  # the pool may submit the next one from within
        if self.queue and not self.is_dead and self._timer is None:
            self._begin()

    def _begin(self) -> None:
        batch = self.queue[0]
        if batch not in self.batches:
            self.batches.append(batch)
        self.report(Alive() if _holds(batch, HANGS) else Alive(_A_DAY))
        if self.is_open and not _holds(batch, HANGS):
            seconds = self._left.pop(batch.id, self.seconds_per_token * batch.padded_tokens)
            loop = asyncio.get_running_loop()
            self._due = loop.time() + seconds
            self._timer = loop.call_later(seconds, self.finish)

    def _run(self, batch: Batch) -> Message:
        if batch.padded_tokens > self.memory_tokens:
            return Failed(batch.id, True, "OutOfMemoryError")
        if _holds(batch, RAISES):
            return Failed(batch.id, False, "IndexError: of the model's own")
        parts = zip(batch.sentences, batch.offsets, batch.outputs, strict=True)
        for sentence, offset, output in parts:
            shape = output.shape(len(words(sentence)), DIMENSION)
            view(batch.block.array, offset, shape, output.dtype)[...] = mark(sentence)
        broken = [i for i, sentence in enumerate(batch.sentences) if NAN in words(sentence)]
        return Done(batch.id, 0, 0, tuple(broken))


class ModelWorker(GatedWorker):
    """A worker with a real model, which computes on the event loop."""

    def __init__(self, model: Path, **more: Any) -> None:
        super().__init__(loads=False)
        values = (str(model), "cpu", "float32", 1, 512)
        self._settings = RunnerSettings(*values, **more)

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        super().start(on_message, on_exit)
        self._runner, message = model_loading.start(self._settings)
        self.report(message)

    def _run(self, batch: Batch) -> Message:
        assert self._runner is not None
        (answer,) = served(self._runner, batch)
        return answer


def _holds(batch: Batch, word: str) -> bool:
    return any(word in words(sentence) for sentence in batch.sentences)


def words(sentence: bytes) -> list[str]:
    """Return the tokens of a sentence in a batch."""
    return list(orjson.loads(sentence))


def mark(sentence: bytes) -> int:
    """Return the number that answers a sentence; small enough for float16."""
    return zlib.crc32(sentence) % 2048


class Messages(Parent):
    """The server's messages to a worker, and all that it sends.

    They are there from the start, except for those in `later` until they are moved. `now` is the
    clock of the heartbeat, which stands still by default.
    """

    def __init__(self, *messages: Batch | Drop, now: Callable[[], float] = lambda: 0.0) -> None:
        self.heart = Heartbeat(self.send, now)
        self._messages = list(messages)
        self.later: list[Batch | Drop] = []
        self.sent: list[object] = []
        self._thread = threading.get_ident()

    def has_message(self) -> bool:
        return bool(self._messages)

    def receive(self) -> object:
        if not self._messages:
            raise EOFError
        return self._messages.pop(0)

    def send(self, message: object) -> None:
        assert threading.get_ident() == self._thread, "only the thread that serves sends"
        self.sent.append(message)

    def memory(self, block: Block | BlockName) -> Bytes:
        assert isinstance(block, Block)
        return block.array


def served(runner: Runner, *messages: Batch | Drop) -> list[Message]:
    """Let a runner work on these messages until the server closes the channel."""
    return serve(runner, Messages(*messages))


def serve(runner: Runner, parent: Messages) -> list[Message]:
    """Do the same with these messages, and keep all that the runner sends in them."""
    with pytest.raises(EOFError):
        runner.serve(parent)
    return [each for each in parent.sent if isinstance(each, Done | Failed)]


class FakeChild:
    """Implements `processes.slot.Child`; `say` and `end` report what a process would."""

    is_started = is_killed = is_stopped = False
    is_stuck = False  # in a system call that SIGKILL does not end

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.end: Callable[[str], None] = lambda _: None

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        self.is_started = True
        self.say, self.end = on_message, on_exit

    def send(self, message: Any, /) -> None:
        self.sent.append(message)

    def kill(self) -> None:
        self.is_killed = True
        if not self.is_stuck:
            self.end("was killed by SIGKILL")

    async def stop(self) -> None:
        self.is_stopped = True
