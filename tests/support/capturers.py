"""Capturers without a GPU: they repeat a computation on the CPU, rightly or wrongly."""

from collections.abc import Callable


class Again:
    """Replays a computation by running it again, and counts the captures."""

    def __init__(self) -> None:
        self.captures = 0

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        first()
        second()

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        self.captures += 1
        return compute


class Fading(Again):
    """Replays nothing from the given replay on."""

    def __init__(self, replays: int) -> None:
        super().__init__()
        self.replays = replays

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            self.replays -= 1
            if self.replays > 0:
                compute()

        return replay
