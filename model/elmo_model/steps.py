"""How a long computation tells how far it is."""

from __future__ import annotations

from typing import Protocol


class OnStep(Protocol):
    """Is called when a step begins, and while it runs."""

    def __call__(self, name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        """Take `done` of `total` units of a step; a `total` of 0 is not known."""


def ignore(name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
    """Tell nobody."""
