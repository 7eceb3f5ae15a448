"""Arrays in files, with their room on the disk reserved."""

from pathlib import Path

import numpy as np
import pytest

from elmo_model.mapped_array import mapped_array
from tests.support.full_disk import full_disk


def test_an_array_is_kept_in_its_file(tmp_path: Path) -> None:
    made = mapped_array(tmp_path / "a.npy", (3, 2), np.float16)
    made[1] = 5
    made.flush()

    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[0, 0], [5, 5], [0, 0]])
    assert made.dtype == np.float16


def test_all_bytes_have_their_room_on_the_disk(tmp_path: Path) -> None:
    mapped_array(tmp_path / "a.npy", (1_000, 300), np.float32)

    found = (tmp_path / "a.npy").stat()
    assert found.st_blocks * 512 >= found.st_size


def test_a_full_disk_is_an_os_error(tmp_path: Path) -> None:
    with full_disk(50_000), pytest.raises(OSError, match="File too large"):
        mapped_array(tmp_path / "a.npy", (1_000, 300), np.float32)
