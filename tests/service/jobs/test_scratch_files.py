"""Files without a name: written whole, closed with their job, gone with their process."""

import os
from pathlib import Path

import pytest

from elmo_serve.jobs.child import ScratchFile


def test_what_is_written_is_there_and_no_name_is(tmp_path: Path) -> None:
    with ScratchFile(tmp_path / "made" / "here") as file:
        made = file.create(10)
        file.write(7, b"abc")
        file.write(0, memoryview(b"xy"))

        assert os.pread(made.descriptor, 20, 0) == b"xy\0\0\0\0\0abc"
        assert made.size == 10 and file.holds(made.id)
        assert not list((tmp_path / "made" / "here").iterdir())
    assert not file.holds(made.id)


def test_a_file_that_is_made_too_late_leaves_no_descriptor(tmp_path: Path) -> None:
    """The thread that makes it outlives a job that is cancelled."""
    with ScratchFile(tmp_path) as file:
        pass

    with pytest.raises(OSError, match="is closed"):
        file.create(3)

    targets = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert not [target for target in targets if target.startswith(str(tmp_path))]


def test_a_late_write_reaches_no_other_file(tmp_path: Path) -> None:
    with ScratchFile(tmp_path) as file:
        file.create(3)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        file.write(0, b"abc")  # a thread that outlived the job
        assert os.fstat(other).st_size == 0
    finally:
        os.close(other)
