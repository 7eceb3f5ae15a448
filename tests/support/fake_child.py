"""A child of a slot that does only what a test makes it do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FakeChild:
    """Implements `processes.slot.Child`; `say` and `end` report what a process would."""

    is_started = is_killed = is_stopped = False
    is_stuck = False  # in a system call that SIGKILL does not end

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.end: Callable[[str], None] = lambda _: None

    def start(self, on_message: Callable[[Any], None], on_exit: Callable[[str], None]) -> None:
        self.is_started = True
        self.say, self.end = on_message, on_exit

    def send(self, message: Any, /) -> None:
        self.sent.append(message)

    def kill(self) -> None:
        self.is_killed = True
        if not self.is_stuck:
            self.end("was killed by SIGKILL")

    async def stop(self) -> None:
        self.is_stopped = True
