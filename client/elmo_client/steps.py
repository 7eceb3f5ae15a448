"""What a client does, as steps: generators yield them, and threads or coroutines perform them.

A generator of steps decides and does nothing itself. Whoever drives it performs each step and sends
back what came of it, or throws what went wrong, so that what is decided is written once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Call:
    """Send a request; its httpx.Response comes back, or an httpx.HTTPError is thrown.

    `repeatable` when nothing is lost if the server gets it twice.
    """

    method: str
    path: str
    content: bytes | None = None
    accept: str = "application/json"
    repeatable: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """What the request says beside what every request says."""
        sent = {} if self.content is None else {"Content-Type": "application/json"}
        return {"Accept": self.accept, **sent}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Call a function that takes a while, where it holds nobody up; its result comes back."""

    function: Callable[[], Any]


Step = Call | Pause | Compute
Steps = Generator[Step, Any, _Result]


@dataclass(frozen=True, slots=True)
class Take:
    """The next sentence, or END; it comes back."""


@dataclass(frozen=True, slots=True)
class Start:
    """Perform steps beside these; what they return is collected in the order of the starts."""

    steps: Steps[Any]


@dataclass(frozen=True, slots=True)
class Collect:
    """Hand on what has been returned, oldest first, and wait until at most so many run."""

    running: int


END = object()
"""There is no further sentence."""

StreamStep = Step | Take | Start | Collect
StreamSteps = Generator[StreamStep, Any, None]


class Drive(Generic[_Result]):
    """A generator under way: `step` is to be performed next; None when `result` is there."""

    __slots__ = ("_steps", "result", "step")

    def __init__(self, steps: Generator[Any, Any, _Result]) -> None:
        self._steps = steps
        self.step: Any = None
        self.result: _Result
        self.answer(None)

    def answer(self, value: Any) -> None:
        """Say what came of the step."""
        self._go(self._steps.send, value)

    def fail(self, error: Exception) -> None:
        """Say what went wrong with the step; raises it again where nothing can be done about it."""
        self._go(self._steps.throw, error)

    def _go(self, move: Callable[[Any], Any], value: Any) -> None:
        try:
            self.step = move(value)
        except StopIteration as end:
            self.step, self.result = None, end.value
