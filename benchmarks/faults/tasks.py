"""Task files that are replaced and deleted under faults: every replica must notice in time."""

import asyncio
import random
import time
from collections.abc import Callable

import httpx

from benchmarks.faults.injections import SLOW, Environment
from tests.support.servers import write_task

SERVED_SECONDS = 4.0
"""A replica serves a file that was renamed into place after as long at most: twice the documented
time, on a busy machine."""

_DELAYED_SECONDS = 40.0
"""Likewise where a fault delays a replica."""

_DELAYING = SLOW | {"disk fails", "disk is slow"}
_PAUSE_SECONDS = 0.15


class TaskFiles:
    """Changes one task file after another; `faults` lists each change that was served late."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        urls: list[str],
        on: Environment,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.changes = 0
        self.faults: list[str] = []
        self._http = http
        self._urls = urls
        self._on = on
        self._now = now

    async def run(self, name: str, source: random.Random, is_over: asyncio.Event) -> None:
        """Replace the file of a task, and delete it now and then."""
        while not is_over.is_set():
            await asyncio.sleep(source.uniform(0, 2 * _PAUSE_SECONDS))
            self.changes += 1
            await self.change(name, None if source.random() < 0.2 else self.changes / 100)

    async def change(self, name: str, gamma: float | None) -> None:
        """Rename a file with this gamma into place, or delete it, and wait for every replica."""
        if gamma is None:
            (self._on.tasks / f"{name}.json").unlink(missing_ok=True)
        else:
            write_task(self._on.tasks, name, weights=[1, 2, 3], gamma=gamma)
        since = self._now()
        replicas = range(len(self._urls))
        await asyncio.gather(*(self._served(each, name, gamma, since) for each in replicas))

    async def _served(self, replica: int, name: str, gamma: float | None, since: float) -> None:
        """Ask a replica until it has noticed a change; note one that it noticed late."""
        while True:
            asked = self._now()
            found = await self._gamma(f"{self._urls[replica]}/tasks/{name}")
            if found == gamma:
                return
            if isinstance(found, str):  # no answer, or one that a fault explains
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            felt = self._on.during(since - _DELAYED_SECONDS, self._now())
            most = _DELAYED_SECONDS if felt & _DELAYING else SERVED_SECONDS
            if asked - since > most:
                self.faults.append(
                    f"replica {replica} serves {name} with gamma {found} after "
                    f"{asked - since:.1f} s, expected {gamma}"
                )
                return
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _gamma(self, url: str) -> float | str | None:
        """Return the gamma of a task, None where there is none, or the text of another response."""
        try:
            response = await self._http.get(url, timeout=60)
        except httpx.HTTPError as error:
            return repr(error)
        if response.status_code == 200:
            return float(response.json()["gamma"])
        is_missing = response.status_code == 404 and "left out" not in response.text
        return None if is_missing else response.text
