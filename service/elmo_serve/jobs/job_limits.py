"""How many fits may wait or run, and how large one may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge
from elmo_serve.settings import variable


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The settings of jobs, see `elmo_serve.settings`."""

    jobs: int
    client_jobs: int
    job_bytes: int
    keep_seconds: float

    def check_size(self, size: int) -> None:
        """Raise TooLarge for vectors of more bytes than a fit may have."""
        if size > self.job_bytes:
            raise TooLarge(
                f"The vectors of the fit take {size} bytes and at most {self.job_bytes} are "
                f"allowed ({variable('max_job_bytes')}): send fewer examples."
            )


class JobSlots:
    """Counts the jobs that wait or run, and those whose bodies are being read."""

    def __init__(self, limits: JobLimits, retry_after: Callable[[], float]) -> None:
        """`retry_after` estimates the seconds until a job ends."""
        self._limits = limits
        self._retry_after = retry_after
        self._by_client: Counter[str] = Counter()

    def take(self, client: str) -> JobSlot:
        """Count a job of a client.

        Raises:
            ClientOverShare: the client has as many as it may have.
            Overloaded: all clients together have as many.
        """
        own, all_jobs = self._by_client[client], self._by_client.total()
        if all_jobs >= self._limits.jobs:
            raise Overloaded(
                f"{all_jobs} fits wait or run, which is the limit ({variable('max_jobs')}).",
                retry_after=self._retry_after(),
            )
        if own >= self._limits.client_jobs:
            raise ClientOverShare(
                f"{own} fits of this client wait or run, which is the limit "
                f"({variable('max_client_jobs')}).",
                retry_after=self._retry_after(),
            )
        self._by_client[client] += 1
        return JobSlot(self._by_client, client)

    @contextmanager
    def taking(self, client: str) -> Iterator[JobSlot]:
        """Take a slot, and give it back if the block fails. Raises as `take` does."""
        slot = self.take(client)
        try:
            yield slot
        except BaseException:
            slot.release()
            raise


class JobSlot:
    """One counted job."""

    def __init__(self, counts: Counter[str], client: str) -> None:
        self._counts = counts
        self._client = client
        self._is_released = False

    def release(self) -> None:
        """Count the job no longer; a second call does nothing."""
        if not self._is_released:
            self._is_released = True
            self._counts[self._client] -= 1
            if not self._counts[self._client]:
                del self._counts[self._client]
