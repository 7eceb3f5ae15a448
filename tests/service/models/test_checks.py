"""Checks of a file: its size range, its kind, its recorded digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_model.models.published import File
from elmo_serve.models.cache import DownloadError, check_size
from elmo_serve.models.fetching import SUMS, check_content, digest_of, read_sums, record


def test_a_size_is_allowed_from_the_least_to_the_most() -> None:
    file = File("a", 10, 20)
    for size in (10, 20):
        check_size("a", size, file)

    for size in (9, 21):
        with pytest.raises(DownloadError, match=f"^a: has {size} bytes, expected 10 to 20$"):
            check_size("a", size, file)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("options.json", b"<html>", "is not JSON"),
        ("options.json", b"[" * 100_000, "is not JSON"),
        ("options.json", b"\xff", "is not JSON"),
        ("weights.hdf5", b"<html>", "is no HDF5 file"),
    ],
)
def test_content_of_another_kind_is_refused(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DownloadError, match=f"^label: {expected}"):
        check_content(tmp_path / name, name, "label")


def test_digests_are_recorded_and_read_back(tmp_path: Path) -> None:
    sums = read_sums(tmp_path)
    for name in ("one", "the other"):
        (tmp_path / name).write_text(name)
        record(tmp_path / name, digest_of(tmp_path / name), sums)

    assert read_sums(tmp_path) == sums
    assert sums.keys() == {"one", "the other"}


def test_a_damaged_file_of_digests_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / SUMS).write_bytes(b"\xff\xfe\nno-digest\n")

    assert read_sums(tmp_path) == {}
