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


@pytest.mark.parametrize(
    ("part", "version"),
    [
        *[(WEIGHTS[:1000], version) for version in (b"d\xe9but", b"\xff\n", b"")],
        (bytes(len(WEIGHTS) + 5), b'"one"'),
    ],
    ids=["version", "line", "no version", "longer"],
)
def test_a_damaged_part_of_an_earlier_run_is_ignored(
    mirror: Mirror, download: Download, tmp_path: Path, part: bytes, version: bytes
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_weights.hdf5.part").write_bytes(part)
    (folder / "elmo_tiny_weights.hdf5.part.tag").write_bytes(version)

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges()[-1] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("range_shift", 7),
        *[
            ("content_range", f"bytes 300000-{end}")
            for end in ("999999/" + "9" * 5000, "", "9" * 5000)
        ],
    ],
)
def test_a_response_with_another_or_a_malformed_range_is_discarded(
    mirror: Mirror, download: Download, tmp_path: Path, name: str, value: object
) -> None:
    setattr(mirror, name, value)
    mirror.cuts = [300_000]

    assert_whole(download(tmp_path))

    assert mirror.weight_ranges() == [None, "bytes=300000-", None]


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


@pytest.mark.parametrize(
    ("length", "said"),
    [("1000", "has 1,000 bytes"), (str(1 << 22), "has 4,194,304 bytes"), ("9" * 5000, "")],
)
def test_a_wrong_length_is_refused_in_one_line_before_the_body_is_read(
    mirror: Mirror, download: Download, tmp_path: Path, length: str, said: str
) -> None:
    mirror.content_length = length

    with pytest.raises(DownloadError, match=f"{mirror.address}.*{said}") as refusal:
        download(tmp_path, WEIGHTS_ALONE)

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
