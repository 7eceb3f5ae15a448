"""The body of a request, received within the budget of its client."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from elmo_serve.errors import TooLarge
from elmo_serve.http import headers
from elmo_serve.http.deadline import DisconnectError
from elmo_serve.scheduling.budgets import Budget

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

SMALL_BODY_BYTES: Final = 1 << 15
"""Bodies up to this size, in bytes, are parsed in the server process, usual ones within 0.6 ms of
the event loop; another process takes 0.3 ms of it, and 1 to 3 ms in all. A larger value blocks the
event loop longer: a body made for it, of 64 KiB, for 4 ms. The budget of all bodies does not count
them: 1,024 connections hold 32 MiB of them."""


class Body:
    """The pieces of one request body, of at most `max_bytes`.

    A body over `SMALL_BODY_BYTES` counts with the bytes that have come, until `release`. The pieces
    stay apart, on the heap: a body that never ends holds no file descriptor.
    """

    def __init__(self, scope: "Scope", budget: Budget, max_bytes: int) -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._hold = budget.hold(headers.client(scope))
        self._announced = headers.content_length(scope) or 0

    def release(self) -> None:
        """Give the budget back, and free the pieces."""
        self._hold.release()
        self._pieces.clear()

    async def receive(self, receive: "Receive") -> None:
        """Read the body to its end.

        Raises:
            DisconnectError: the client left before the end.
            TooLarge: the body has more than `max_bytes`.
            Overloaded, ClientOverShare: it does not fit beside the other bodies.
        """
        self._check_size(self._announced)
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError
            piece: bytes = message.get("body", b"")
            self.size += len(piece)
            self._check_size(self.size)
            if self.size > SMALL_BODY_BYTES:
                self._hold.add(self.size - self._hold.left)
            self._pieces.append(piece)
            more = message.get("more_body", False)

    def take(self) -> bytes:
        """Return the whole body, copied together, and free its pieces."""
        whole = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return whole

    def move_to(self, memory: NDArray[np.uint8]) -> None:
        """Write the body to the start of `memory` and free its pieces."""
        start = 0
        for piece in self._pieces:
            memory[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            start += len(piece)
        self._pieces.clear()

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLarge(
                f"The body has {size} bytes or more and at most {self._max_bytes} are allowed "
                f"(ELMO_MAX_BODY_BYTES)."
            )
