"""The size of OUTPUT before a run, and the time that it takes: told before hours are lost."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elmo_model.errors import OptionError

_ROOM: Final = 1.2
"""Free bytes that a run must find, as a share of the bytes that it writes: the size is estimated,
and others write to the disk meanwhile."""

_TOLD_BYTES: Final = 1_000_000  # a smaller output is there before anybody has read its size
_TOLD_SECONDS: Final = 60.0
_BATCHES: Final = 20  # after which the rate is told


class NoRoomError(OptionError):
    """The disk has no room for OUTPUT."""


def free_bytes(folder: Path) -> int:
    """Return the bytes that this user may still write to the disk of a folder."""
    return shutil.disk_usage(folder).free


def _tell_nobody(_line: str) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Forecast:
    """Tells the size of OUTPUT, and the time left after 20 batches; `free` and `clock` measure."""

    tell: Callable[[str], None] = _tell_nobody
    free: Callable[[Path], int] = free_bytes
    clock: Callable[[], float] = time.monotonic
    _begun: float | None = None
    _is_told: bool = False

    def size(self, output: Path, size: int, kept: int, *, about: bool) -> None:
        """Tell the size of OUTPUT, of which parts of `kept` bytes are there.

        `about` tells that it is an estimate. Raises NoRoomError if the disk lacks room for the
        rest.
        """
        kind = "about " if about else ""
        if size >= _TOLD_BYTES:
            self.tell(f"{output} will have {kind}{shown_bytes(size)}")
        left = max(0, size - kept)
        free = self.free(existing(output))
        if free < _ROOM * left:
            raise NoRoomError(
                f"{output} needs {kind}{shown_bytes(left)} more, and its disk has "
                f"{shown_bytes(free)} free, expected {_ROOM} times that; make room or name another"
            )

    def is_short(self, folder: Path, size: int) -> bool:
        """Tell whether the disk of a folder has no room for so many bytes."""
        return self.free(folder) < _ROOM * size

    def begin(self) -> None:
        """Take the time at which the first sentence is computed."""
        if self._begun is None:
            self._begun = self.clock()

    def count(self, tokens: int, left: int, batch_tokens: int) -> None:
        """Tell the time left, once, when so many tokens are computed in batches of this size."""
        if self._is_told or self._begun is None or tokens < _BATCHES * batch_tokens:
            return
        self._is_told = True
        seconds = (self.clock() - self._begun) * left / tokens
        if seconds >= _TOLD_SECONDS:
            self.tell(f"about {shown_time(seconds)} left")


def existing(path: Path) -> Path:
    """Return the nearest folder of a path that is there."""
    return next(each for each in path.absolute().parents if each.is_dir())


def shown_bytes(count: int) -> str:
    """Return a size in decimal units: `8.2 GB`."""
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 999.95 and units[1:]:
        size, units = size / 1000, units[1:]
    return f"{size:,.{0 if units[0] == 'bytes' else 1}f} {units[0]}"


def shown_time(seconds: float) -> str:
    """Return a time in hours, below one in minutes: `3.2 hours`."""
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:.0f} minutes"
