"""What clients have in use: tokens of the queue, bytes of request bodies and of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elmo_serve.errors import ClientOverShare, Overloaded, TooLarge

_SHARE: Final = 0.5
"""Part of the limit that stays open to a client, whatever one other client uses. A larger part lets
two clients use more than the limit together, up to `1 + _SHARE` times as much."""

_PARTS: Final = 1_024
"""A hold of at most the limit over this number always fits, so that large holds never keep small
requests out. A smaller number lets more requests in, which together exceed the limit by more."""

_RETRY_SECONDS: Final = 2.0
"""`Retry-After` where the time is unknown at which room is made: clients read at any pace."""


class Budget:
    """An amount in use, by all clients and by each one, within `limit`.

    A client alone may use all of `limit`. Of what it uses, another client that asks sees at most
    half the limit, so that the other half is open to it. A hold of at most `limit` over `_PARTS`,
    or over the number of `connections` where that is larger, always fits. With one hold for each
    connection, clients use at most one and a half times the limit in large holds, and once the
    limit in small ones. Clients with nothing in use are not stored.

    `used` is the sum over all holds of what each has left. A hold gives each unit back once, so
    the sum can be neither negative nor too low.

    `name` is that of the units, in the plural; `hint` is the setting behind the limit, and what
    helps. `on_idle` is called when `used` returns to zero.
    """

    def __init__(
        self,
        limit: int,
        name: str,
        hint: str,
        *,
        connections: int = _PARTS,
        on_idle: Callable[[], object] | None = None,
    ) -> None:
        self.limit = limit
        self.used = 0
        self._small = limit // max(_PARTS, connections)
        self._name = name
        self._hint = hint
        self._on_idle = on_idle
        self._by_client: Counter[str] = Counter()

    def hold(self, client: str = "", amount: int = 0) -> Hold:
        """Count an amount of a client until it is given back; raises as `Hold.add`."""
        hold = Hold(self, client)
        hold.add(amount)
        return hold

    def excess(self, client: str, amount: int, held: int = 0) -> int:
        """Return by how much `amount` more is too much; 0 when it fits.

        `held` is what the same hold has already. Raises TooLarge for more than the whole budget.
        """
        whole = held + amount
        if whole > self.limit:
            raise TooLarge(
                f"{whole} {self._name} are asked for and at most {self.limit} are allowed "
                f"({self._hint})."
            )
        excess = self.used + amount - self.limit
        if excess <= 0 or whole <= self._small:
            return 0
        share = int(_SHARE * self.limit)
        own = self._by_client[client] + amount
        others = sum(min(used, share) for name, used in self._by_client.items() if name != client)
        return max(0, min(excess, max(own - share, others + own - self.limit)))

    def refusal(
        self, client: str, amount: int, retry_after: float = _RETRY_SECONDS
    ) -> Overloaded | ClientOverShare:
        """Return the error for an amount that is too much now."""
        own = self._by_client[client]
        if own < self.used and own + amount > _SHARE * self.limit:
            return ClientOverShare(
                f"This client uses {own} of {self.limit} {self._name} beside others; {amount} more "
                "do not fit.",
                retry_after=retry_after,
            )
        return Overloaded(
            f"{self.used} of {self.limit} {self._name} are in use; {amount} more do not fit.",
            retry_after=retry_after,
        )

    def take(self, client: str, amount: int) -> None:
        """Count more of a client; `Hold.add` calls it."""
        self.used += amount
        self._by_client[client] += amount

    def give_back(self, client: str, amount: int) -> None:
        """Count less of a client; `Hold.give_back` calls it."""
        self.used -= amount
        self._by_client[client] -= amount
        if not self._by_client[client]:
            del self._by_client[client]
        if not self.used and self._on_idle is not None:
            self._on_idle()


@dataclass(slots=True, eq=False)
class Hold:
    """What one request has of a budget. `left` is what has not been given back."""

    budget: Budget
    client: str
    left: int = 0

    def add(self, amount: int) -> None:
        """Count more.

        Raises:
            TooLarge: the hold would be more than the whole budget.
            Overloaded, ClientOverShare: there is no room for it now.
        """
        if not amount:
            return
        if self.budget.excess(self.client, amount, self.left):
            raise self.budget.refusal(self.client, amount)
        self.budget.take(self.client, amount)
        self.left += amount

    def give_back(self, amount: int) -> None:
        """Give back `amount`, or what is left if that is less."""
        freed = min(amount, self.left)
        if freed:
            self.left -= freed
            self.budget.give_back(self.client, freed)

    def release(self) -> None:
        """Give back all that is left; a second call does nothing."""
        self.give_back(self.left)
