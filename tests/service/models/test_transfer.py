"""One file over HTTP: resumed after a cut, never pieced together from two versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_model.models.published import Published
from elmo_serve.models.cache import CacheSettings, DownloadError
from elmo_serve.models.fetching import fetch
from tests.support.mirror import MODEL, WEIGHTS, WEIGHTS_PATH, Mirror, assert_whole

Download = Callable[..., Path]

WEIGHTS_ALONE = Published("tiny", "", MODEL.files[1:])


def test_a_cut_connection_is_resumed(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    mirror.cuts = [300_000, 0, 500_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, "bytes=300000-", "bytes=300000-", "bytes=800000-"]


def test_a_later_run_resumes_a_failed_one(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.cuts = [300_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="5 attempts without progress"):
        download(tmp_path)
    mirror.requests.clear()

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == ["bytes=300000-"]


def test_without_ranges_the_whole_file_is_fetched_again(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.ranges, mirror.cuts = False, [300_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, "bytes=300000-"]


def test_a_new_version_replaces_a_part_of_the_old_one(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.files[WEIGHTS_PATH], mirror.cuts = b"x" * len(WEIGHTS), [300_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError):
        download(tmp_path)
    mirror.files[WEIGHTS_PATH], mirror.etag = WEIGHTS, '"two"'

    assert_whole(download(tmp_path))


@pytest.mark.parametrize("etag", [None, 'W/"weak"', '"d\u00e9but"', '"a b"', "x" * 5000])
def test_a_part_without_a_usable_version_is_fetched_anew(
    mirror: Mirror, download: Download, tmp_path: Path, etag: str | None
) -> None:
    mirror.etag, mirror.cuts = etag, [300_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, None]


@pytest.mark.parametrize("version", ["début".encode("latin-1"), b"\xff\n", b""])
def test_a_damaged_version_file_of_an_earlier_run_is_ignored(
    mirror: Mirror, download: Download, tmp_path: Path, version: bytes
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_weights.hdf5.part").write_bytes(WEIGHTS[:1000])
    (folder / "elmo_tiny_weights.hdf5.part.tag").write_bytes(version)

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None]


def test_a_response_with_another_range_is_discarded(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.range_shift, mirror.cuts = 7, [300_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, "bytes=300000-", None]


@pytest.mark.parametrize(
    "content_range", ["bytes 300000-999999/" + "9" * 5000, "bytes 300000-", "9" * 5000]
)
def test_a_response_with_a_malformed_range_is_discarded(
    mirror: Mirror, download: Download, tmp_path: Path, content_range: str
) -> None:
    mirror.content_range, mirror.cuts = content_range, [300_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, "bytes=300000-", None]


def test_a_part_longer_than_the_file_is_discarded(download: Download, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_weights.hdf5.part").write_bytes(bytes(len(WEIGHTS) + 5))
    (folder / "elmo_tiny_weights.hdf5.part.tag").write_text('"one"')

    assert_whole(download(tmp_path))


def test_a_body_without_a_length_is_read_up_to_the_bound(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.chunked = True
    assert_whole(download(tmp_path))
    mirror.files[WEIGHTS_PATH] = WEIGHTS + bytes(1 << 20)

    with pytest.raises(DownloadError, match="has more bytes than expected, at most 2,097,152"):
        download(tmp_path / "other")


def test_a_busy_server_is_tried_again(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    mirror.statuses = [503, 429, 500]

    assert_whole(download(tmp_path))


@pytest.mark.parametrize("length", ["1000", str(1 << 22)])
def test_a_wrong_length_is_refused_before_the_body_is_read(
    mirror: Mirror, download: Download, tmp_path: Path, length: str
) -> None:
    mirror.content_length = length

    with pytest.raises(DownloadError, match=f"has {int(length):,} bytes, expected 1,048,576 to"):
        download(tmp_path, WEIGHTS_ALONE)


def test_an_endless_number_as_length_is_one_line(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.content_length = "9" * 5000

    with pytest.raises(DownloadError) as refusal:
        download(tmp_path, WEIGHTS_ALONE)

    assert mirror.address in str(refusal.value)
    assert len(str(refusal.value)) < 500 and "\n" not in str(refusal.value)


def test_a_redirect_to_itself_is_refused(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.redirects_to_itself = True

    with pytest.raises(DownloadError, match="redirects") as refusal:
        download(tmp_path)

    assert mirror.address in str(refusal.value) and "\n" not in str(refusal.value)


def test_an_unreachable_server_is_named_with_its_address(tmp_path: Path) -> None:
    address = "http://127.0.0.1:1"
    settings = CacheSettings(tmp_path, address, pause_seconds=0.0)

    with pytest.raises(DownloadError, match=r"5 attempts without progress") as refusal:
        fetch(MODEL, settings, lambda *_: None)

    assert str(refusal.value).startswith(f"{address}/elmo/tiny/elmo_tiny_options.json: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("address", ["http://[::1", "ftp://127.0.0.1/", "http://a:b:c/"])
def test_an_impossible_address_is_one_line(tmp_path: Path, address: str) -> None:
    settings = CacheSettings(tmp_path, address, pause_seconds=0.0)

    with pytest.raises(DownloadError) as refusal:
        fetch(MODEL, settings, lambda *_: None)

    assert address.rstrip("/") in str(refusal.value) and "\n" not in str(refusal.value)
