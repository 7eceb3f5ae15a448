"""One file over HTTP: whole or not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_model.models.published import Published
from elmo_serve.models.checks import DownloadError
from elmo_serve.models.download import CacheSettings, fetch
from tests.support.download_server import MODEL, WEIGHTS, WEIGHTS_PATH, Mirror, assert_whole

Download = Callable[..., Path]

WEIGHTS_ALONE = Published("tiny", "", MODEL.files[1:])


def test_a_cut_download_starts_over(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    mirror.cuts = [300_000, 0]

    assert_whole(download(tmp_path))

    assert mirror.requests.count(WEIGHTS_PATH) == 3


def test_three_cuts_end_a_download_and_leave_nothing(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.cuts = [300_000, 0, 500_000]

    with pytest.raises(DownloadError, match="3 attempts"):
        download(tmp_path, WEIGHTS_ALONE)

    assert {path.name for path in (tmp_path / "tiny").iterdir()} == {".lock"}


def test_the_rest_of_a_killed_download_is_written_over(download: Download, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_weights.hdf5.part").write_bytes(bytes(len(WEIGHTS) + 5))

    assert_whole(download(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/nonexistent"),
        ("ALL_PROXY", "socks://127.0.0.1:1"),
        ("NO_PROXY", "localhost,[::1]"),
        ("http_proxy", "http://127.0.0.1:1"),
    ],
)
def test_a_fault_of_the_environment_names_its_variable(
    download: Download, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for proxy in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.lower(), raising=False)
    monkeypatch.setenv(name, value)

    with pytest.raises(DownloadError, match=name) as refusal:
        download(tmp_path)

    assert "\n" not in str(refusal.value) and "folder" not in str(refusal.value)


def test_a_body_without_a_length_is_read_up_to_the_bound(
    mirror: Mirror, download: Download, tmp_path: Path
) -> None:
    mirror.chunked = True
    assert_whole(download(tmp_path))
    mirror.files[WEIGHTS_PATH] = WEIGHTS + bytes(1 << 20)

    with pytest.raises(DownloadError, match="2,097,152"):
        download(tmp_path / "other")


def test_a_busy_server_is_tried_again(mirror: Mirror, download: Download, tmp_path: Path) -> None:
    mirror.statuses = [503, 429]

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

    with pytest.raises(DownloadError, match=r"3 attempts") as refusal:
        fetch(MODEL, settings, lambda *_: None)

    assert str(refusal.value).startswith(f"{address}/elmo/tiny/elmo_tiny_options.json: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("address", ["http://[::1", "ftp://127.0.0.1/", "http://a:b:c/"])
def test_an_impossible_address_is_one_line(tmp_path: Path, address: str) -> None:
    settings = CacheSettings(tmp_path, address, pause_seconds=0.0)

    with pytest.raises(DownloadError) as refusal:
        fetch(MODEL, settings, lambda *_: None)

    assert address.rstrip("/") in str(refusal.value) and "\n" not in str(refusal.value)
