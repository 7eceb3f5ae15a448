"""How much of the queue each client has, where none may have all of it."""

from __future__ import annotations

from collections import Counter


class Shares:
    """Tokens that each client has waiting or running, `limit` at most; None: without a bound."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._held: Counter[str] = Counter()

    def held(self, client: str) -> int:
        """Return the tokens of a client."""
        return self._held[client]

    def excess(self, client: str, tokens: int) -> int:
        """Return by how much a client would be over the limit with so many tokens more; or 0."""
        return 0 if self.limit is None else max(0, self._held[client] + tokens - self.limit)

    def take(self, client: str, tokens: int) -> None:
        """Count tokens that were admitted."""
        self._held[client] += tokens

    def give_back(self, client: str, tokens: int) -> None:
        """Count tokens that were answered, or never will be; whoever has none is forgotten."""
        self._held[client] -= tokens
        if not self._held[client]:
            del self._held[client]
