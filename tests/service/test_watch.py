"""The thread that looks at files."""

import threading
from collections.abc import Iterable, Iterator

import pytest

from elmo_serve.watch import Watch

SECONDS = 300
"""A wait that takes longer fails the test."""


class Looks:
    """Raises or returns as `outcomes` say, then stops the watch."""

    def __init__(self, outcomes: Iterable[Exception | None]) -> None:
        self.watch = Watch("elmo-test", self, seconds=0)
        self.ended = threading.Event()
        self._outcomes: Iterator[Exception | None] = iter(outcomes)

    def __call__(self) -> None:
        try:
            outcome = next(self._outcomes)
        except StopIteration:
            self.watch.close()
            self.ended.set()
            return
        if outcome is not None:
            raise outcome

    def run(self) -> None:
        self.watch.start()
        assert self.ended.wait(SECONDS)


def test_a_look_that_fails_ends_no_watch_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Looks([None, MemoryError(), MemoryError(), RuntimeError(), None, KeyError(), None]).run()

    found = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert found == [MemoryError, KeyError]
    assert all("elmo-test" in record.getMessage() for record in caplog.records)
