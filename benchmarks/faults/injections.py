"""The faults themselves: each begins, lasts as long as its event says, and is healed."""

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.hostile import ATTACKS, BAD_REQUESTS, attack, status_of
from benchmarks.faults.link import DIRECTIONS
from benchmarks.faults.replicas import Replica
from benchmarks.faults.schedule import Event
from tests.support.processes import is_alive

_JUMPS = (-86_400, -3_600, -30, 30, 3_600, 86_400)  # seconds
_FOUND_SECONDS = 25.0  # in which a hung worker is killed: after 20 of silence from its next batch
_QUOTAS = (10_000, 30_000, 60_000)  # microseconds of processor time in each 100,000
_SLOW_READ_MS = (100, 500, 2_000)
_SEIZE, _INTERRUPT, _DETACH, _WALL = 0x4206, 0x4207, 17, 0x40000000  # of ptrace and waitpid


@dataclass
class Environment:
    """All that faults act on; `skipped` has a reason for each fault that is impossible here."""

    replicas: list[Replica]
    tasks: Path
    quotas: list[Path | None]
    skipped: dict[str, str]
    windows: list[tuple[Event, float, float]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def during(self, start: float, end: float, replica: int | None = None) -> set[str]:
        """Return the faults that touched some time of the monotonic clock; None: at any replica."""
        return {
            event.fault
            for event, begun, over in self.windows
            if begun <= end and over >= start and replica in (None, event.replica)
        }


Injection = Callable[[Environment, Replica, Event], Coroutine[None, None, None]]


async def inject(on: Environment, event: Event) -> None:
    """Cause one fault and heal it."""
    replica = on.replicas[event.replica]
    index = len(on.windows)
    on.windows.append((event, time.monotonic(), float("inf")))
    try:
        # A process may end while a signal is on its way.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            await INJECTIONS[event.fault](on, replica, event)
    finally:
        on.windows[index] = (event, on.windows[index][1], time.monotonic())


def _signal(role: str, number: signal.Signals, lasts: str) -> Injection:
    """Return the fault that sends a signal; stopped processes go on at its end, or never."""

    async def strike(on: Environment, replica: Replica, event: Event) -> None:
        there = await asyncio.to_thread(replica.pids, role)
        if not there:
            return
        pid = there[event.pick % len(there)]
        if lasts == "for ever":
            replica.stopped.append(pid)
        os.kill(pid, number)
        if lasts == "a while":
            await asyncio.sleep(event.seconds)
            os.kill(pid, signal.SIGCONT)

    return strike


async def _hang_worker(on: Environment, replica: Replica, event: Event) -> None:
    """Stop a worker for ever; the server must kill it, unless it stands still itself meanwhile."""
    before, start = len(replica.stopped), time.monotonic()
    await _signal("worker", signal.SIGSTOP, "for ever")(on, replica, event)
    for pid in replica.stopped[before:]:
        if not await ends_within(pid, _FOUND_SECONDS):
            others = on.during(start, time.monotonic(), replica.index)
            if not others & STANDSTILLS:
                on.findings.append(f"replica {replica.index}: a worker hung for {_FOUND_SECONDS} s")


async def ends_within(pid: int, seconds: float) -> bool:
    """Tell whether a process ends in time."""
    until = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(0.2)
    return True


async def _kill_replica(on: Environment, replica: Replica, event: Event) -> None:
    async with replica.front:
        await asyncio.to_thread(replica.kill)
        await asyncio.sleep(event.seconds)
        await asyncio.to_thread(replica.start)


async def _pause_replica(on: Environment, replica: Replica, event: Event) -> None:
    async with replica.front:
        await _signal("front", signal.SIGSTOP, "a while")(on, replica, event)


async def _pause_thread(on: Environment, replica: Replica, event: Event) -> None:
    """Stop one thread of the front or of a worker, while the others go on."""
    async with replica.front:
        role = ("front", "worker")[event.pick % 2]
        pids = await asyncio.to_thread(replica.pids, role)
        if pids:
            await asyncio.to_thread(_hold_one, pids[0], event)


def _hold_one(pid: int, event: Event) -> None:
    """Stop a thread; all calls of ptrace must come from the thread that made the first one."""
    threads = sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
    thread = threads[event.pick % len(threads)]
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(_SEIZE, thread, None, None) or ptrace(_INTERRUPT, thread, None, None):
        return  # it has ended
    with contextlib.suppress(ChildProcessError):
        os.waitpid(thread, _WALL)
    time.sleep(event.seconds)
    ptrace(_DETACH, thread, None, None)


async def _throttle(on: Environment, replica: Replica, event: Event) -> None:
    quota = on.quotas[replica.index]
    assert quota is not None
    is_v2 = quota.name == "cpu.max"
    for pid in await asyncio.to_thread(replica.all_pids):
        with contextlib.suppress(ProcessLookupError):
            quota.with_name("cgroup.procs").write_text(str(pid))
    share = _QUOTAS[event.pick % len(_QUOTAS)]
    quota.write_text(f"{share} 100000" if is_v2 else str(share))
    await asyncio.sleep(event.seconds)
    quota.write_text("max 100000" if is_v2 else "-1")


def _disturb(place: int, values: tuple[int, ...]) -> Injection:
    """Return the fault that sets a number of the preloaded library for a while."""

    async def change(on: Environment, replica: Replica, event: Event) -> None:
        replica.disturb(place, values[event.pick % len(values)])
        await asyncio.sleep(event.seconds)
        replica.disturb(place, 0)

    return change


async def _stall_link(on: Environment, replica: Replica, event: Event) -> None:
    direction = DIRECTIONS[event.pick % 2]
    replica.link.stall(direction, True)
    await asyncio.sleep(event.seconds)
    if event.pick % 3 == 0:
        replica.link.cut()
    replica.link.stall(direction, False)


async def _hostile(on: Environment, replica: Replica, event: Event) -> None:
    """Send bad requests, while attackers hold connections."""
    server = replica.server
    assert server is not None
    is_over = threading.Event()
    with attack(server, ATTACKS[event.pick % len(ATTACKS)], is_over):
        until = time.monotonic() + event.seconds
        for request in BAD_REQUESTS:
            start = time.monotonic()
            if start > until:
                break
            try:
                status = await asyncio.to_thread(status_of, server, request, 90)
            except OSError as error:
                if not on.during(start, time.monotonic(), replica.index) & UNREACHABLE:
                    on.findings.append(f"bad request {request[:60]!r}: {error!r}")
                continue
            if not (400 <= status < 500 or status == 503):
                on.findings.append(f"bad request {request[:60]!r}: {status}")
        is_over.set()


UNREACHABLE = {"replica killed", "replica pauses", "thread pauses", "link stalls"}
"""Faults after which a replica may not be reached, or not answer."""

STANDSTILLS = {"replica pauses", "thread pauses", "processor throttled", "replica killed"}
"""Faults while which a server does not count the silence of its children."""

SLOW = UNREACHABLE | {"worker hangs", "worker pauses", "helper hangs", "processor throttled"}
"""Faults in which a request may run out of its time."""

INJECTIONS: dict[str, Injection] = {
    "worker killed": _signal("worker", signal.SIGKILL, "for good"),
    "worker hangs": _hang_worker,
    "worker pauses": _signal("worker", signal.SIGSTOP, "a while"),
    "helper killed": _signal("helper", signal.SIGKILL, "for good"),
    "helper hangs": _signal("helper", signal.SIGSTOP, "for ever"),
    "replica killed": _kill_replica,
    "replica pauses": _pause_replica,
    "thread pauses": _pause_thread,
    "processor throttled": _throttle,
    "clock jumps": _disturb(0, _JUMPS),
    "disk fails": _disturb(1, (1, 2, 3)),
    "disk is slow": _disturb(2, _SLOW_READ_MS),
    "link stalls": _stall_link,
    "hostile clients": _hostile,
}
