"""The three pools of helper processes of a server: one parses bodies, writes JSON, splits texts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from elmo_serve.http.helpers.parsing import PARSING
from elmo_serve.http.helpers.pool import HelperPool
from elmo_serve.http.helpers.text import SPLITTING
from elmo_serve.http.helpers.writing import WRITING
from elmo_serve.metrics import Metrics
from elmo_serve.processes.arena import Arena

_MOST_PROCESSES = 8
"""Processes of a pool at most; each of them holds some 60 MB."""


@dataclass(frozen=True, slots=True)
class Helpers:
    """The pools, apart from each other: a slow body or text delays no response in JSON."""

    parsing: HelperPool
    writing: HelperPool
    splitting: HelperPool

    @classmethod
    def of(
        cls,
        arena: Arena,
        metrics: Metrics,
        cores: int,
        pool: type[HelperPool] = HelperPool,
    ) -> Self:
        """Return pools that are not started, for a machine with so many cores.

        `pool` is the class of each.
        """
        # Half of the cores: few clients use these processes, and the network uses all cores.
        count = max(1, min(_MOST_PROCESSES, cores // 2))
        options = (PARSING, WRITING, SPLITTING)
        return cls(*(pool(each, arena, metrics, count=count) for each in options))

    def start(self) -> None:
        """Spawn the processes of the pools that are not lazy."""
        for pool in self._all:
            pool.start()

    async def stop(self) -> None:
        """End all processes."""
        await asyncio.gather(*(pool.stop() for pool in self._all))

    @property
    def _all(self) -> tuple[HelperPool, ...]:
        return self.parsing, self.writing, self.splitting
