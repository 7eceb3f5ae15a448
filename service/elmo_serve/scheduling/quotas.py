"""Budgets of tokens: of the whole server, and of each client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial


class Budget:
    """An amount in use, of `limit` at most; a limit of None means no limit.

    `used` is the sum over all holds of what each has left. A hold gives each unit back once, so
    the sum can be neither negative nor too low. `on_idle` is called when `used` returns to zero.
    """

    def __init__(
        self, limit: int | None = None, on_idle: Callable[[], object] | None = None
    ) -> None:
        self.limit = limit
        self.used = 0
        self.on_idle = on_idle

    def excess(self, amount: int) -> int:
        """Return by how much `amount` more would exceed the limit; 0 when it fits."""
        return 0 if self.limit is None else max(0, self.used + amount - self.limit)

    def hold(self, amount: int) -> Hold:
        """Count `amount` as used until it is given back. The caller has checked `excess`."""
        self.used += amount
        return Hold(self, amount)


@dataclass(slots=True, eq=False)
class Hold:
    """A part of a budget. `left` is what has not been given back."""

    budget: Budget
    left: int

    def give_back(self, amount: int) -> None:
        """Give back `amount`, or what is left if that is less."""
        freed = min(amount, self.left)
        if freed:
            self.left -= freed
            self.budget.used -= freed
            if not self.budget.used and self.budget.on_idle is not None:
                self.budget.on_idle()

    def release(self) -> None:
        """Give back all that is left; a second call does nothing."""
        self.give_back(self.left)


class ClientQuotas:
    """A budget of `limit` tokens for each client. Clients with no tokens in use are not stored."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._budgets: dict[str, Budget] = {}

    def __len__(self) -> int:
        """Return the number of clients with tokens in use."""
        return len(self._budgets)

    def used(self, client: str) -> int:
        """Return the tokens that a client has in use."""
        budget = self._budgets.get(client)
        return budget.used if budget else 0

    def excess(self, client: str, tokens: int) -> int:
        """Return by how much `tokens` more would exceed the client's limit; 0 when they fit."""
        return (self._budgets.get(client) or Budget(self.limit)).excess(tokens)

    def hold(self, client: str, tokens: int) -> Hold:
        """Count `tokens` as used by a client until they are given back."""
        budget = self._budgets.get(client)
        if budget is None:
            budget = Budget(self.limit, partial(self._budgets.pop, client, None))
            if tokens:
                self._budgets[client] = budget
        return budget.hold(tokens)
