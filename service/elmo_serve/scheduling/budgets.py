"""What clients have in use: tokens of the queue, bytes of request bodies and of answers."""

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


class Budget:
    """An amount in use, by all clients and by each one. Clients with nothing in use are not stored.

    `used` is the sum over all holds of what each has left. A hold gives each unit back once, so
    the sum can be neither negative nor too low.
    """

    def __init__(self) -> None:
        self.used = 0
        self._by_client: Counter[str] = Counter()

    def used_by(self, client: str) -> int:
        """Return the amount that a client has in use."""
        return self._by_client[client]

    def hold(self, client: str = "", amount: int = 0) -> Hold:
        """Count an amount of a client until it is given back; raises as `Hold.add`."""
        hold = Hold(self, client)
        hold.add(amount)
        return hold

    def _take(self, client: str, amount: int) -> None:
        self.used += amount
        self._by_client[client] += amount

    def _give_back(self, client: str, amount: int) -> None:
        self.used -= amount
        self._by_client[client] -= amount
        if not self._by_client[client]:
            del self._by_client[client]


@dataclass(slots=True, eq=False)
class Hold:
    """What one request has of a budget. `left` is what has not been given back."""

    budget: Budget
    client: str
    left: int = 0

    def add(self, amount: int) -> None:
        """Count more. In a `ByteBudget` this raises:

        TooLarge: it is more than the whole budget.
        Overloaded, ClientOverShare: there is no room for it now.
        """
        if amount:
            self.budget._take(self.client, amount)
            self.left += amount

    def give_back(self, amount: int) -> None:
        """Give back `amount`, or what is left if that is less."""
        freed = min(amount, self.left)
        if freed:
            self.left -= freed
            self.budget._give_back(self.client, freed)

    def release(self) -> None:
        """Give back all that is left; a second call does nothing."""
        self.give_back(self.left)


class ByteBudget(Budget):
    """Bytes in use, within `limit`.

    A client alone may use all of `limit`. Of what it uses, another client that asks sees at most
    half the limit, so that the other half is open to it. Together they use at most one and a half
    times the limit.

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
        super().__init__()
        self.limit = limit
        self._name = name
        self._hint = hint
        self._on_idle = on_idle
        self._clock = clock
        self._released = 0.0  # recently, in `_seconds`
        self._seconds = 0.0
        self._noted_at = 0.0

    def _take(self, client: str, amount: int) -> None:
        if amount > self.limit:
            raise TooLarge(
                f"{amount} bytes of {self._name} are asked for and at most {self.limit} are "
                f"allowed ({self._hint})."
            )
        if excess := self._excess(client, amount):
            raise self._refusal(client, amount, excess)
        if not self.used:
            self._released = self._seconds = 0.0
            self._noted_at = self._clock()
        super()._take(client, amount)

    def _give_back(self, client: str, amount: int) -> None:
        self._note_time()
        self._released += amount
        super()._give_back(client, amount)
        if not self.used and self._on_idle is not None:
            self._on_idle()

    def _excess(self, client: str, size: int) -> int:
        """Return by how many bytes `size` more of a client are too many; 0 when they fit."""
        excess = self.used + size - self.limit
        if excess <= 0:
            return 0
        share = int(_SHARE * self.limit)
        own = self._by_client[client] + size
        others = sum(min(used, share) for name, used in self._by_client.items() if name != client)
        return max(0, min(excess, max(own - share, others + own - self.limit)))

    def _refusal(self, client: str, size: int, excess: int) -> Overloaded | ClientOverShare:
        self._note_time()
        seconds = self._seconds
        if self._released:
            seconds *= excess / self._released
        retry_after = min(seconds, _LONGEST_RETRY_SECONDS)
        own = self._by_client[client]
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
