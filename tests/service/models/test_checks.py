"""Checks of a file: its size range, its kind, its recorded digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_model.models.published import File
from elmo_serve.models.checks import SUMS, DownloadError, check_size, read_sums


def test_a_size_is_allowed_from_the_least_to_the_most() -> None:
    file = File("a", 10, 20)
    for size in (10, 20):
        check_size("a", size, file)

    for size in (9, 21):
        with pytest.raises(DownloadError, match=f"^a: has {size} bytes, expected 10 to 20$"):
            check_size("a", size, file)


def test_a_damaged_file_of_digests_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_bytes(b"\xff\xfe\nno-digest\n")

    assert read_sums(tmp_path) == {}
