"""Arrays in files, with their room on the disk reserved."""

from pathlib import Path

import numpy as np

from elmo_model.mapped_array import mapped_array


def test_an_array_is_kept_in_its_file(tmp_path: Path) -> None:
    made = mapped_array(tmp_path / "a.npy", (3, 2), np.float16)
    made[1] = 5
    made.flush()

    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [[0, 0], [5, 5], [0, 0]])
    assert made.dtype == np.float16


def test_all_bytes_have_their_room_on_the_disk(tmp_path: Path) -> None:
    """So a full disk is an error here, and not a signal at a later write into the memory."""
    mapped_array(tmp_path / "a.npy", (1_000, 300), np.float32)

    found = (tmp_path / "a.npy").stat()
    assert found.st_blocks * 512 >= found.st_size
