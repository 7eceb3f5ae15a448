"""The messages that every process of a task pool sends, whatever its tasks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """The process can take tasks."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a result: some of its items. The message that ends the task follows."""

    items: Sequence[bytes | str]
