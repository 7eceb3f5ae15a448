"""The process of a fit: the file of its vectors, its supervision, its own side.

No torch at import: the server imports this module too.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from elmo_serve import logs
from elmo_serve.jobs.bulk_queue import WorkFailedError
from elmo_serve.jobs.plan import FitMessage, Fits, NotTrained, Scored, Train, Trained
from elmo_serve.metrics import Metrics
from elmo_serve.workers.process import ChildProcess, Parent
from elmo_serve.workers.shared_memory import Segment
from elmo_serve.workers.slot import Child, LostTasks, Slot, SlotListener, SlotSpec, Started
from elmo_serve.workers.watchdog import Timeouts

PROCESS_NAME = "elmo-fit"
"""Name of the process in `ps` and `top`."""

_ATTEMPTS = 2
"""Processes that may be lost before the job fails."""

_TIMEOUTS = Timeouts(load=1_800.0, first_batch=14_400.0, batch=14_400.0)
"""At the lowest priority a fit stands still for long on a busy machine. A message comes after each
mixture and seed."""

NICENESS = 19
"""The lowest priority: beside a busy worker the fit gets some 1.5 % of a core. Server and fit share
a session, so that the kernel's autogroups, which would hide the priority, do not part them."""


class ScratchFile:
    """A file without a name, passed to a child process by descriptor: a context manager.

    It vanishes with the processes that have it open, also after SIGKILL, and unlike shared memory
    needs no room in the main memory. `ChildProcess` asks it which segments exist.
    """

    def __init__(self, folder: Path) -> None:
        """Make the file in `folder`, which is made when it is missing."""
        self._folder = folder
        self._segment: Segment | None = None
        # A thread may write after the end of the job: its descriptor may be another file's then.
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
            if self._segment is not None:
                os.close(self._segment.descriptor)
                self._segment = None

    def create(self, size: int) -> Segment:
        """Make the file, of `size` bytes. Raises OSError, also once it is closed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder) as file, self._lock:
            if self._is_closed:  # the job has ended while this thread waited for the disk
                raise OSError(errno.EBADF, "the file of the job is closed")
            os.ftruncate(file.fileno(), max(size, 1))
            descriptor = os.dup(file.fileno())
            self._segment = Segment(1, max(size, 1), descriptor, memoryview(b""))
        return self._segment

    def holds(self, segment_id: int) -> bool:
        """Tell whether the file is in use."""
        return self._segment is not None and self._segment.id == segment_id

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of `data` at a byte of the file; nothing once it is closed.

        Raises OSError, where the disk is full.
        """
        rest = memoryview(data)
        with self._lock:
            while rest and self._segment is not None:
                count = os.pwrite(self._segment.descriptor, rest, offset)
                rest, offset = rest[count:], offset + count


SpawnFit = Callable[[ScratchFile], Child]
"""Makes the process of a fit, which is not started yet, from the file that it may map."""


def spawner(log: tuple[str, str], niceness: int = NICENESS) -> SpawnFit:
    """Return a maker of processes; `log` is the level and the form of their log lines."""
    return lambda file: ChildProcess(PROCESS_NAME, work, log, file, niceness)


class FitChild(SlotListener[Train]):
    """The process of one job, started again once when it is lost.

    Start it early: torch is loaded while the vectors are computed.
    """

    def __init__(
        self,
        file: ScratchFile,
        on_message: Callable[[Fits | Scored], None],
        metrics: Metrics,
        spawn: SpawnFit,
    ) -> None:
        self._metrics = metrics
        self._on_message = on_message
        self._lost = 0
        self._task: Train | None = None
        self._end: asyncio.Future[Trained] = asyncio.get_running_loop().create_future()
        spec = SlotSpec(
            name="fit process",
            loading="it is starting",
            make=lambda _: spawn(file),
            timeouts=_TIMEOUTS,
            minimum_size=1,
        )
        self._slot: Slot[Train] = Slot(spec, self, [])

    def start(self) -> None:
        """Spawn the process."""
        self._slot.start()

    def train(self, task: Train) -> None:
        """Give the process its task, now or when it is ready."""
        self._task = task
        if self._slot.is_ready:
            self._submit()

    async def ended(self) -> Trained:
        """Wait for the end. Raises WorkFailedError: nothing is learned, or two processes lost."""
        return await asyncio.shield(self._end)

    async def stop(self) -> None:
        """End the process, whatever it does."""
        if not self._end.done():
            self._end.cancel()
        elif not self._end.cancelled():
            self._end.exception()  # it has been seen, or nobody waits for it
        self._slot.kill()
        await self._slot.stop()

    def on_message(self, slot: Slot[Train], message: FitMessage) -> None:
        """Handle a message of the process."""
        match message:
            case Started():
                self._slot.mark_ready()
                if self._task is not None:
                    self._submit()
            case Fits() | Scored():
                self._slot.renew()
                self._on_message(message)
            case NotTrained(reason):
                self._slot.finish()
                self._fail(reason)
            case Trained():
                self._slot.finish()
                if not self._end.done():
                    self._end.set_result(message)

    def on_lost(self, slot: Slot[Train], lost: LostTasks[Train]) -> None:
        """Count the loss; the slot starts the next process, which gets the task again."""
        self._metrics.failures.labels("fit_hung" if lost.was_hung else "fit_lost").inc()
        self._lost += 1
        if self._lost == _ATTEMPTS:
            self._fail(f"{lost.reason}, the second one of this job")

    def _submit(self) -> None:
        assert self._task is not None
        self._slot.assign(self._task, 1)
        self._slot.child.send(self._task, self._task.vectors)

    def _fail(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_exception(WorkFailedError(reason))


def work(parent: Parent, log_level: str, log_format: str) -> None:
    """Fit one task, in a process of its own."""
    with suppress(OSError):  # not on every system
        Path("/proc/self/comm").write_text(PROCESS_NAME)
    logs.configure(log_level, log_format)
    # torch, in this process only.
    from elmo_serve.jobs.training import train  # noqa: PLC0415

    parent.send(Started())
    task: Train = parent.receive()
    vectors = parent.memory(task.vectors)
    _end_with_server(parent)
    parent.send(train(task, vectors, parent.send))
    threading.Event().wait()


def _end_with_server(parent: Parent) -> None:
    """End this process when the server closes the channel or dies: the fit itself never reads."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.receive()
        os._exit(0)

    threading.Thread(target=watch, name="server", daemon=True).start()
