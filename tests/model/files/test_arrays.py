"""Arrays in files, with their room on the disk reserved."""

import os
from pathlib import Path

import numpy as np
import pytest

from elmo_model.files.arrays import mapped_array


@pytest.fixture(params=["linux", "macos"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system calls of Linux, and those of macOS."""
    if request.param == "macos":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)


@pytest.mark.usefixtures("system")
def test_an_array_is_kept_in_its_file(tmp_path: Path) -> None:
    made = mapped_array(tmp_path / "a.npy", (3, 2), np.float16)
    made[1] = 5
    made.flush()

    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[0, 0], [5, 5], [0, 0]])
    assert made.dtype == np.float16
    assert mapped_array(tmp_path / "b.npy", (0, 2), np.float16).shape == (0, 2)


@pytest.mark.usefixtures("system")
def test_all_bytes_have_their_room_on_the_disk(tmp_path: Path) -> None:
    """So a full disk is an error here, and not a signal at a later write into the memory."""
    mapped_array(tmp_path / "a.npy", (1_000, 300), np.float32)

    found = (tmp_path / "a.npy").stat()
    assert found.st_blocks * 512 >= found.st_size
