"""Files without a name: written whole, closed with their job, gone with their process."""

import os
from pathlib import Path

import pytest

from elmo_serve.jobs.scratch_files import ScratchFiles


def test_what_is_written_is_there_and_no_name_is(tmp_path: Path) -> None:
    with ScratchFiles(tmp_path / "made" / "here") as files:
        first, second = files.create(10), files.create(0)
        files.write(first, 7, b"abc")
        files.write(first, 0, memoryview(b"xy"))

        assert os.pread(first.descriptor, 20, 0) == b"xy\0\0\0\0\0abc"
        assert (first.size, second.size) == (10, 1)
        assert first.id != second.id and files.holds(first.id)
        assert not list((tmp_path / "made" / "here").iterdir())
    assert not files.holds(first.id)


def test_a_file_that_is_made_too_late_leaves_no_descriptor(tmp_path: Path) -> None:
    """The thread that makes it outlives a job that is cancelled."""
    with ScratchFiles(tmp_path) as files:
        pass

    with pytest.raises(OSError, match="are closed"):
        files.create(3)

    targets = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert not [target for target in targets if target.startswith(str(tmp_path))]


def test_a_late_write_reaches_no_other_file(tmp_path: Path) -> None:
    with ScratchFiles(tmp_path) as files:
        segment = files.create(3)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        files.write(segment, 0, b"abc")  # a thread that outlived the job
        assert os.fstat(other).st_size == 0
    finally:
        os.close(other)
