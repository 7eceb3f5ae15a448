"""A thread that is as late as a thread may be."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class LateExecutor(Executor):
    """Runs a call when somebody waits for its result; `most` were not run at some time."""

    def __init__(self) -> None:
        self._left = self.most = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        executor = self

        class Call(Future[Any]):
            def exception(self, timeout: float | None = None) -> BaseException | None:
                if not self.done():
                    executor._left -= 1
                    self.set_result(function(*args, **options))
                return super().exception(timeout)

            def result(self, timeout: float | None = None) -> Any:
                self.exception()
                return super().result(timeout)

        self._left += 1
        self.most = max(self.most, self._left)
        return Call()
