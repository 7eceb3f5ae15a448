"""Published models in the cache folder: fetched once, verified afterwards, usable offline."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_serve.models.checks import SUMS, DownloadError
from elmo_serve.models.download import CacheSettings, fetch
from tests.support.download_server import (
    MODEL,
    OPTIONS,
    OPTIONS_PATH,
    WEIGHTS,
    WEIGHTS_PATH,
    Mirror,
    assert_whole,
)
from tests.support.files import full_disk

Download = Callable[..., Path]


def ignore(*_: object) -> None:
    pass


def test_a_model_is_fetched_once(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    settings = CacheSettings(tmp_path, mirror.address)

    folder = fetch(MODEL, settings, lambda *step: seen.append(step))

    assert folder == tmp_path / "tiny"
    assert_whole(folder)
    assert seen[0] == ("elmo_tiny_options.json", 0, len(OPTIONS))
    assert seen[-1] == ("elmo_tiny_weights.hdf5", len(WEIGHTS), len(WEIGHTS))
    assert download(tmp_path) == folder and len(mirror.requests) == 2
    mirror.files.clear()
    assert download(tmp_path, offline=True) == folder


def test_sha256sum_accepts_the_file_of_digests(download: Download, tmp_path: Path) -> None:
    folder = download(tmp_path)

    check = ["sha256sum", "--check", "--strict", SUMS]
    subprocess.run(check, cwd=folder, check=True, capture_output=True)


REFUSED = {
    "missing": ({"files": {}}, "the server answered 404, expected 200"),
    "forbidden": ({"statuses": [403]}, "the server answered 403, expected 200"),
    "compressed": ({"encoding": "gzip"}, "came as 'gzip', expected it as it is"),
    "a page in place of options": ({"files": {OPTIONS_PATH: b"<html>sign in</html>"}}, "JSON"),
    "nested options": ({"files": {OPTIONS_PATH: b"[" * 100_000}}, "is not JSON"),
    "options of bytes": ({"files": {OPTIONS_PATH: b"\xff\xff"}}, "is not JSON"),
    "zeros in place of weights": (
        {"files": {OPTIONS_PATH: OPTIONS, WEIGHTS_PATH: bytes(1 << 20)}},
        "HDF5",
    ),
}


@pytest.mark.parametrize(("behaviour", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_response_that_cannot_be_the_file_is_refused_and_removed(
    mirror: Mirror, download: Download, tmp_path: Path, behaviour: dict[str, object], message: str
) -> None:
    for name, value in behaviour.items():
        setattr(mirror, name, value)

    with pytest.raises(DownloadError, match=message) as refusal:
        download(tmp_path)

    assert "\n" not in str(refusal.value) and mirror.address in str(refusal.value)
    assert not list((tmp_path / "tiny").glob("*.part"))


def test_a_file_that_changed_on_the_disk_is_refused(download: Download, tmp_path: Path) -> None:
    weights = download(tmp_path) / "elmo_tiny_weights.hdf5"
    content = bytearray(WEIGHTS)
    content[700_000] ^= 1
    weights.write_bytes(content)
    found = hashlib.sha256(content).hexdigest()

    with pytest.raises(DownloadError, match=f"SHA-256 is {found}"):
        download(tmp_path)
    weights.write_bytes(content[:-1])
    with pytest.raises(DownloadError, match="its SHA-256 is"):
        download(tmp_path)

    weights.unlink()
    assert_whole(download(tmp_path))


def test_a_download_that_differs_from_the_first_one_is_refused(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    weights = download(tmp_path) / "elmo_tiny_weights.hdf5"
    weights.unlink()
    mirror.files[WEIGHTS_PATH] = WEIGHTS[:-1] + b"!"

    with pytest.raises(DownloadError, match=r"weights\.hdf5: .*SHA-256"):
        download(tmp_path)

    assert not weights.exists()


def test_files_copied_by_hand_are_used_and_verified_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_options.json").write_bytes(OPTIONS)
    (folder / "elmo_tiny_weights.hdf5").write_bytes(WEIGHTS)
    settings = CacheSettings(tmp_path, "http://127.0.0.1:1", offline=True)

    assert_whole(fetch(MODEL, settings, ignore))

    (folder / "elmo_tiny_options.json").write_bytes(b"{}")
    with pytest.raises(DownloadError, match=r"options\.json: .*SHA-256"):
        fetch(MODEL, settings, ignore)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_whole_model_in_a_read_only_cache_is_used(download: Download, tmp_path: Path) -> None:
    folder = download(tmp_path)
    (folder / ".lock").unlink()
    (folder / SUMS).unlink()
    folder.chmod(0o555)
    try:
        assert download(tmp_path, offline=True) == folder
    finally:
        folder.chmod(0o755)


def test_offline_sends_no_request(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="ELMO_OFFLINE"):
        download(tmp_path, offline=True)

    assert mirror.requests == []


def test_a_cache_without_locks_is_used_without_one(
    download: Download, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)

    assert_whole(download(tmp_path))


def test_concurrent_downloads_fetch_once(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    threads = [threading.Thread(target=download, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert_whole(tmp_path / "tiny")
    assert len(mirror.requests) == 2


def test_an_unwritable_cache_is_named(download: Download, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DownloadError, match="Not a directory"):
        download(tmp_path / "file")


def test_a_full_disk_is_one_line_and_leaves_nothing(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    with full_disk(300_000), pytest.raises(DownloadError, match="File too large"):
        download(tmp_path)

    assert not list((tmp_path / "tiny").glob("*.part"))
    assert_whole(download(tmp_path))
