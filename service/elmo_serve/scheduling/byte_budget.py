"""A budget of bytes that clients share: request bodies, or answers that are not sent yet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge

_SHARE: Final = 0.5
"""Part of the limit that stays open to a client, whatever one other client uses. A larger part lets
two clients use more than the limit together, up to `1 + _SHARE` times as much."""

_PACE_SECONDS: Final = 10.0
"""Time over which the pace of releases is averaged, for `Retry-After`. A larger value notices
later that a reader has become slow."""

_LONGEST_RETRY_SECONDS: Final = 60.0


class ByteBudget:
    """Bytes in use by all clients, and by each one.

    A client alone may use all of `limit`. Of what it uses, another client that asks sees at most
    half the limit, so that the other half is open to it. Together they use at most one and a half
    times the limit. Clients with nothing in use are not stored.

    `name` says of what the bytes are, in the plural; `hint` is the setting behind the limit, and
    what helps. `on_idle` is called when `used` returns to zero.
    """

    def __init__(
        self,
        limit: int,
        name: str,
        hint: str,
        clock: Callable[[], float],
        on_idle: Callable[[], object] | None = None,
    ) -> None:
        self.limit = limit
        self.used = 0
        self._name = name
        self._hint = hint
        self._on_idle = on_idle
        self._clock = clock
        self._used_by: Counter[str] = Counter()
        self._released = 0.0  # recently, in `_seconds`
        self._seconds = 0.0
        self._noted_at = 0.0

    def hold(self, client: str, size: int = 0) -> ByteHold:
        """Count `size` bytes of a client until the hold is released; raises as `ByteHold.add`."""
        hold = ByteHold(self, client)
        hold.add(size)
        return hold

    def _take(self, client: str, size: int) -> None:
        if size > self.limit:
            raise TooLarge(
                f"{size} bytes of {self._name} are asked for and at most {self.limit} are allowed "
                f"({self._hint})."
            )
        if excess := self._excess(client, size):
            raise self._refusal(client, size, excess)
        if not self.used:
            self._released = self._seconds = 0.0
            self._noted_at = self._clock()
        self.used += size
        self._used_by[client] += size

    def _give_back(self, client: str, size: int) -> None:
        self._note_time()
        self._released += size
        self.used -= size
        self._used_by[client] -= size
        if not self._used_by[client]:
            del self._used_by[client]
        if not self.used and self._on_idle is not None:
            self._on_idle()

    def _excess(self, client: str, size: int) -> int:
        """Return by how many bytes `size` more of a client are too many; 0 when they fit."""
        excess = self.used + size - self.limit
        if excess <= 0:
            return 0
        share = int(_SHARE * self.limit)
        own = self._used_by[client] + size
        others = sum(min(used, share) for name, used in self._used_by.items() if name != client)
        return max(0, min(excess, max(own - share, others + own - self.limit)))

    def _refusal(self, client: str, size: int, excess: int) -> Overloaded | ClientOverShare:
        self._note_time()
        seconds = self._seconds
        if self._released:
            seconds *= excess / self._released
        retry_after = min(seconds, _LONGEST_RETRY_SECONDS)
        own = self._used_by[client]
        if own < self.used and own + size > _SHARE * self.limit:
            return ClientOverShare(
                f"This client uses {own} of {self.limit} bytes of {self._name} beside others; "
                f"{size} more do not fit.",
                retry_after=retry_after,
            )
        return Overloaded(
            f"{self.used} of {self.limit} bytes of {self._name} are in use; {size} more do not "
            "fit.",
            retry_after=retry_after,
        )

    def _note_time(self) -> None:
        """Let releases of the past count less, the longer ago they were."""
        now = self._clock()
        elapsed = now - self._noted_at
        kept = math.exp(-elapsed / _PACE_SECONDS)
        self._released *= kept
        self._seconds = self._seconds * kept + elapsed
        self._noted_at = now


@dataclass(slots=True, eq=False)
class ByteHold:
    """What one request uses of a budget."""

    budget: ByteBudget
    client: str
    size: int = 0

    def add(self, size: int) -> None:
        """Count more bytes.

        Raises:
            TooLarge: they are more than the whole budget.
            Overloaded, ClientOverShare: there is no room for them now.
        """
        if size:
            self.budget._take(self.client, size)
            self.size += size

    def release(self) -> None:
        """Give all bytes back; a second call does nothing."""
        size, self.size = self.size, 0
        if size:
            self.budget._give_back(self.client, size)
