"""The lock of a folder that several servers change."""

import errno
import fcntl
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elmo_model.files import locks
from elmo_model.files.locks import locked_file
from tests.support.files import read_only


def test_one_holds_it_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads a number and writes the next one, which loses turns where two are inside."""
    monkeypatch.setattr(locks, "_LOGGED_SECONDS", 0)
    count = tmp_path / "count"
    count.write_text("0")

    def add(turns: int) -> None:
        for _ in range(turns):
            with locked_file(tmp_path / ".lock"):
                count.write_text(str(int(count.read_text()) + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [25] * 4))

    assert count.read_text() == "100"


def test_who_waits_too_long_is_told_which_file(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with (
        locked_file(path),
        pytest.raises(BlockingIOError, match=r"has locked .*\.lock"),
        locked_file(path, wait=False),
    ):
        pass


def test_who_waits_without_a_limit_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "_LOGGED_SECONDS", 0)
    path, logged = tmp_path / ".lock", threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", lambda record: logged.set())

    def wait() -> bool:
        with locked_file(path):
            return True

    with ThreadPoolExecutor(1) as pool:
        with locked_file(path):
            waiting = pool.submit(wait)
            assert logged.wait(timeout=60)
        assert waiting.result()


def test_it_is_released_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked_file(tmp_path / ".lock"):
        raise KeyError

    with locked_file(tmp_path / ".lock", wait=False):
        pass


def test_every_user_may_lock_the_file(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        with locked_file(tmp_path / ".lock"):
            pass
    finally:
        os.umask(mask)

    assert stat.S_IMODE((tmp_path / ".lock").stat().st_mode) == 0o666


def test_a_folder_that_is_read_only_has_no_lock(tmp_path: Path) -> None:
    with read_only(tmp_path), pytest.raises(PermissionError), locked_file(tmp_path / ".lock"):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.EBADF])
def test_on_a_file_system_without_locks_the_block_runs_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)

    with locked_file(tmp_path / ".lock"), locked_file(tmp_path / ".lock"):
        pass
