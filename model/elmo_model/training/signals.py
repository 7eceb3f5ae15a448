"""Signals that end a run after it has been saved."""

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# SIGHUP comes when a terminal or an ssh connection is lost; Windows has none.
_STOPPING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)


class StopSignals:
    """The signals that have been received so far."""

    def __init__(self) -> None:
        self._received: list[int] = []

    def note(self, number: int) -> None:
        """Record a signal and acknowledge it at once on standard error."""
        self._received.append(number)
        text = f"\nelmo: {signal.Signals(number).name}: finishing the step, then saving\n"
        # The handler may interrupt a write to the same stream: only the descriptor is safe. Its
        # reader may be gone, as `tee` is after Ctrl-C.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())

    def __bool__(self) -> bool:
        """Tell whether any signal was received."""
        return bool(self._received)

    @property
    def exit_code(self) -> int:
        """Return the exit code that a shell gives for the first signal, 0 for none."""
        return 128 + self._received[0] if self._received else 0


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Record SIGTERM, SIGINT and SIGHUP instead of ending the process.

    The second signal of a kind has its former effect. An ignored SIGHUP stays ignored: `nohup` asks
    for that.
    """
    received = StopSignals()
    former: dict[int, Any] = {}

    def handle(number: int, _: Any) -> None:
        signal.signal(number, former[number])
        received.note(number)

    for number in _STOPPING:
        if number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) == signal.SIG_IGN:
            continue
        former[number] = signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, action in former.items():
            signal.signal(number, action)
