"""Clients that change tasks through all replicas, and the history of what they were told."""

import asyncio
import itertools
import random
import time

import httpx

from benchmarks.faults.history import UNKNOWN, Operation, fault
from benchmarks.faults.injections import SLOW, Environment

_NAMES = 2  # that are used at the same time
_LENGTH = 40  # operations of a history, after which another name is used
_STALE_SECONDS = 4.0  # a GET may be so old: four times what the API promises, on a busy machine
_OLD_SECONDS = 40.0  # likewise where a fault delays a replica
_DELAYING = SLOW | {"disk fails", "disk is slow", "disk is full"}
_PAUSE_SECONDS = 0.15


class TaskHistory:
    """Changes tasks until it is over; `faults` has what agrees with no order."""

    def __init__(
        self, http: httpx.AsyncClient, urls: list[str], on: Environment, source: random.Random
    ) -> None:
        self._http = http
        self._urls = urls
        self._on = on
        self._source = source
        self._values = itertools.count(1)
        self._started = 0  # operations of all names
        self._histories: dict[str, list[Operation]] = {}
        self._last: dict[tuple[str, int], int] = {}  # index of a replica's last answer by name

    @property
    def operations(self) -> int:
        """The number of operations that the histories hold."""
        return sum(map(len, self._histories.values()))

    async def run(self, is_over: asyncio.Event) -> None:
        """Send one operation after another."""
        while not is_over.is_set():
            await asyncio.sleep(self._source.uniform(0, 2 * _PAUSE_SECONDS))
            self._started += 1
            group = self._started // (_NAMES * _LENGTH)
            name = f"history-{group}-{self._source.randrange(_NAMES)}"
            kind = self._source.choices(("PUT", "GET", "DELETE"), (4, 4, 2))[0]
            await self._do(name, kind, self._source.randrange(len(self._urls)))

    async def look(self) -> list[str]:
        """Read each name through each replica, once they had time to see the last change."""
        await asyncio.sleep(_STALE_SECONDS)
        for name in sorted(self._histories):
            for replica in range(len(self._urls)):
                await self._do(name, "GET", replica, is_last=True)
        return [
            f"history of {name}: {found}; {len(operations)} operations"
            for name, operations in self._histories.items()
            if (found := fault(operations)) is not None
        ]

    async def _do(self, name: str, kind: str, replica: int, is_last: bool = False) -> None:
        """Send one operation, and keep it with its response."""
        value = float(next(self._values)) / 100 if kind == "PUT" else None
        body = {"weights": [1, 2, 3], "gamma": value} if kind == "PUT" else None
        history = self._histories.setdefault(name, [])
        after = self._last.get((name, replica))
        start = time.monotonic()
        status, text = 0, ""
        try:
            url = f"{self._urls[replica]}/tasks/{name}"
            response = await self._http.request(kind, url, json=body, timeout=60)
            status, text = response.status_code, response.text
        except httpx.HTTPError:
            pass
        end = time.monotonic()
        felt = self._on.during(start - _OLD_SECONDS, end)
        if kind == "GET":
            if status not in (200, 404) or "left out" in text:  # the disk fails
                return
            value = response.json()["gamma"] if status == 200 else None
            if not is_last:
                start -= _OLD_SECONDS if felt & _DELAYING else _STALE_SECONDS
            operation = Operation(kind, value, start, end, after=after)
        else:
            # PUT tells what its own replica has seen: another one may write at the same time.
            existed = {204: True, 404: False}.get(status)
            is_sure = status in (200, 201, 204, 404)
            # A folder that did not answer in time may do so later.
            is_over = status and "does not answer" not in text
            operation = Operation(kind, value, start, end if is_over else UNKNOWN, existed, is_sure)
        history.append(operation)
        if operation.is_sure and status:
            self._last[name, replica] = len(history) - 1
