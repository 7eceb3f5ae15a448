"""The lock of a folder that several servers change."""

import errno
import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elmo_serve.errors import Unavailable
from elmo_serve.folder_lock import locked


def test_one_holds_it_at_a_time(tmp_path: Path) -> None:
    """Each reads a number and writes the next one, which loses turns where two are inside."""
    count = tmp_path / "count"
    count.write_text("0")

    def add(turns: int) -> None:
        for _ in range(turns):
            with locked(tmp_path / ".lock", attempts=60_000):
                count.write_text(str(int(count.read_text()) + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [25] * 4))

    assert count.read_text() == "100"


def test_who_waits_too_long_is_told_which_file(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with (
        locked(path),
        pytest.raises(Unavailable, match=r"Another server has locked .*\.lock"),
        locked(path, attempts=2),
    ):
        pass


def test_it_is_released_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / ".lock"):
        raise KeyError

    with locked(tmp_path / ".lock", attempts=1):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_lets_everybody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)

    with locked(tmp_path / ".lock"), locked(tmp_path / ".lock"):
        pass
