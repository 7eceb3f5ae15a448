"""A queue that takes one item of each client in turn."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Turns(Generic[ItemT]):
    """Items that wait, in the order of their clients' turns. Those of one client keep their order.

    A client has its turn after all that wait when it comes, and the one that had the last turn
    never has the next one while another waits. Clients without items are not stored.
    """

    def __init__(self) -> None:
        self._by_client: dict[str, deque[ItemT]] = {}
        self._last: str | None = None  # had the last turn

    def __bool__(self) -> bool:
        return bool(self._by_client)

    def add(self, client: str, item: ItemT) -> None:
        """Add an item behind those of its client."""
        self._by_client.setdefault(client, deque()).append(item)

    def add_first(self, client: str, item: ItemT) -> None:
        """Put an item back: it is the next one of all."""
        items = self._by_client.pop(client, deque())
        items.appendleft(item)
        self._by_client = {client: items, **self._by_client}
        self._last = None

    def next(self) -> ItemT | None:
        """Remove and return the next item; None if there is none."""
        if not self._by_client:
            return None
        client = next(iter(self._by_client))
        if client == self._last:  # its turn was before the others came
            self._by_client[client] = self._by_client.pop(client)
            client = next(iter(self._by_client))
        items = self._by_client.pop(client)
        item, self._last = items.popleft(), client
        if items:
            self._by_client[client] = items
        return item
