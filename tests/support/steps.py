"""Steps of a long computation, recorded."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Steps:
    """An `OnStep` that keeps the name, the units done and the total of each call."""

    told: list[tuple[str, int, int]] = field(default_factory=list)

    def __call__(self, name: str, done: int = 0, total: int = 0, unit: str = "tokens") -> None:
        self.told.append((name, done, total))
