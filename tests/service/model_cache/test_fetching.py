"""Published models, fetched from a server on loopback that does what servers do."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_model.catalogue import CATALOGUE, PUBLISHED, Published
from elmo_serve.model_cache import SUMS, CacheSettings, DownloadError, default_cache, fetch, locate
from tests.support.mirror import MODEL, OPTIONS, WEIGHTS, WEIGHTS_PATH, Shelf, serving


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with serving() as shelf:
        yield shelf


def get(shelf: Shelf, cache: Path, model: Published = MODEL, *, offline: bool = False) -> Path:
    return fetch(model, CacheSettings(cache, shelf.address, offline, 0.0), lambda *_: None)


def assert_whole(folder: Path) -> None:
    assert (folder / "elmo_tiny_options.json").read_bytes() == OPTIONS
    assert (folder / "elmo_tiny_weights.hdf5").read_bytes() == WEIGHTS
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        SUMS,
        "elmo_tiny_options.json",
        "elmo_tiny_weights.hdf5",
    ]


def test_a_model_is_fetched_once(shelf: Shelf, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    places = CacheSettings(tmp_path, shelf.address)
    folder = fetch(MODEL, places, lambda *step: seen.append(step))
    assert folder == tmp_path / "tiny"
    assert_whole(folder)
    assert seen[0] == ("elmo_tiny_options.json", 0, len(OPTIONS))
    assert seen[-1] == ("elmo_tiny_weights.hdf5", len(WEIGHTS), len(WEIGHTS))
    assert get(shelf, tmp_path) == folder and len(shelf.asked) == 2
    shelf.files.clear()
    assert get(shelf, tmp_path, offline=True) == folder


def test_sums_are_those_of_sha256sum(shelf: Shelf, tmp_path: Path) -> None:
    folder = get(shelf, tmp_path)
    check = ["sha256sum", "--check", "--strict", SUMS]
    subprocess.run(check, cwd=folder, check=True, capture_output=True)


def test_a_connection_that_is_cut_is_taken_up_where_it_was(shelf: Shelf, tmp_path: Path) -> None:
    shelf.cuts = [300_000, 0, 500_000]
    assert_whole(get(shelf, tmp_path))
    assert shelf.of_weights() == [None, "bytes=300000-", "bytes=300000-", "bytes=800000-"]


def test_a_later_command_goes_on_where_one_gave_up(shelf: Shelf, tmp_path: Path) -> None:
    shelf.cuts = [300_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="after 5 attempts that brought nothing"):
        get(shelf, tmp_path)
    shelf.asked.clear()
    assert_whole(get(shelf, tmp_path))
    assert shelf.of_weights() == ["bytes=300000-"]


def test_without_ranges_the_whole_is_fetched_again(shelf: Shelf, tmp_path: Path) -> None:
    shelf.ranges, shelf.cuts = False, [300_000]
    assert_whole(get(shelf, tmp_path))
    assert shelf.of_weights() == [None, "bytes=300000-"]


def test_a_file_that_changed_meanwhile_is_not_pieced_together(shelf: Shelf, tmp_path: Path) -> None:
    shelf.files[WEIGHTS_PATH], shelf.cuts = b"x" * len(WEIGHTS), [300_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError):
        get(shelf, tmp_path)
    shelf.files[WEIGHTS_PATH], shelf.etag = WEIGHTS, '"two"'
    assert_whole(get(shelf, tmp_path))


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_a_part_of_no_known_version_is_not_gone_on_with(
    shelf: Shelf, tmp_path: Path, etag: str | None
) -> None:
    shelf.etag, shelf.cuts = etag, [300_000]
    assert_whole(get(shelf, tmp_path))
    assert shelf.of_weights() == [None, None]


def test_another_range_than_asked_for_is_not_taken(shelf: Shelf, tmp_path: Path) -> None:
    shelf.range_shift, shelf.cuts = 7, [300_000]
    assert_whole(get(shelf, tmp_path))
    assert shelf.of_weights() == [None, "bytes=300000-", None]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(shelf: Shelf, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_weights.hdf5.part").write_bytes(bytes(len(WEIGHTS) + 5))
    (folder / "elmo_tiny_weights.hdf5.part.tag").write_text('"one"')
    assert_whole(get(shelf, tmp_path))


def test_a_body_without_a_length_is_taken_up_to_the_bound(shelf: Shelf, tmp_path: Path) -> None:
    shelf.chunked = True
    assert_whole(get(shelf, tmp_path))
    shelf.files[WEIGHTS_PATH] = WEIGHTS + bytes(1 << 20)
    with pytest.raises(DownloadError, match="has more bytes than expected, at most 2,097,152"):
        get(shelf, tmp_path / "other")


def test_a_server_that_is_busy_is_asked_again(shelf: Shelf, tmp_path: Path) -> None:
    shelf.statuses = [503, 429, 500]
    assert_whole(get(shelf, tmp_path))


def test_a_wrong_length_is_refused_before_anything_is_fetched(shelf: Shelf, tmp_path: Path) -> None:
    for said in (1000, 1 << 22):
        shelf.said = said
        with pytest.raises(DownloadError, match=f"has {said:,} bytes, expected 1,048,576 to"):
            fetch(
                Published("w", "", MODEL.files[1:]),
                CacheSettings(tmp_path, shelf.address),
                _nothing,
            )


def _nothing(*_: object) -> None:
    pass


REFUSED = {
    "gone": ({"files": {}}, "the server answered 404, expected 200"),
    "forbidden": ({"statuses": [403]}, "the server answered 403, expected 200"),
    "packed": ({"encoding": "gzip"}, "came as 'gzip', expected it as it is"),
    "a page": (
        {"files": {f"/mirror/{MODEL.files[0].path}": b"<html>sign in</html>"}},
        "is not JSON, expected an options file",
    ),
    "no weights": (
        {"files": {f"/mirror/{MODEL.files[0].path}": OPTIONS, WEIGHTS_PATH: bytes(1 << 20)}},
        "is no HDF5 file, expected weights",
    ),
}


@pytest.mark.parametrize(("behaviour", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_the_file_is_refused_and_not_kept(
    shelf: Shelf, tmp_path: Path, behaviour: dict[str, object], message: str
) -> None:
    for name, value in behaviour.items():
        setattr(shelf, name, value)
    with pytest.raises(DownloadError, match=message) as refusal:
        get(shelf, tmp_path)
    assert "\n" not in str(refusal.value) and shelf.address in str(refusal.value)
    assert not list((tmp_path / "tiny").glob("*.part"))


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:1/elmo/tiny/.*after 5 attempts"):
        fetch(MODEL, CacheSettings(tmp_path, "http://127.0.0.1:1", pause_seconds=0.0), _nothing)


def test_a_file_that_changed_on_the_disk_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    weights = get(shelf, tmp_path) / "elmo_tiny_weights.hdf5"
    content = bytearray(WEIGHTS)
    content[700_000] ^= 1
    weights.write_bytes(content)
    found = hashlib.sha256(content).hexdigest()
    with pytest.raises(DownloadError, match=f"its SHA-256 is {found}, expected .* as at its first"):
        get(shelf, tmp_path)
    weights.write_bytes(content[:-1])
    with pytest.raises(DownloadError, match="its SHA-256 is"):
        get(shelf, tmp_path)
    weights.unlink()
    assert_whole(get(shelf, tmp_path))


def test_another_file_than_at_the_first_download_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    weights = get(shelf, tmp_path) / "elmo_tiny_weights.hdf5"
    weights.unlink()
    shelf.files[WEIGHTS_PATH] = WEIGHTS[:-1] + b"!"
    with pytest.raises(DownloadError, match=r"weights\.hdf5: its SHA-256 is .*, expected"):
        get(shelf, tmp_path)
    assert not weights.exists()


def test_files_put_there_by_hand_are_taken_and_watched_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "elmo_tiny_options.json").write_bytes(OPTIONS)
    (folder / "elmo_tiny_weights.hdf5").write_bytes(WEIGHTS)
    places = CacheSettings(tmp_path, "http://127.0.0.1:1", offline=True)
    assert_whole(fetch(MODEL, places, _nothing))
    (folder / "elmo_tiny_options.json").write_bytes(b"{}")
    with pytest.raises(DownloadError, match=r"options\.json: its SHA-256 is"):
        fetch(MODEL, places, _nothing)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_whole_model_in_a_read_only_cache_is_taken(shelf: Shelf, tmp_path: Path) -> None:
    folder = get(shelf, tmp_path)
    (folder / ".lock").unlink()
    (folder / SUMS).unlink()
    folder.chmod(0o555)
    try:
        assert get(shelf, tmp_path, offline=True) == folder
    finally:
        folder.chmod(0o755)


def test_offline_nothing_is_asked_for(shelf: Shelf, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="does not exist, expected it there as ELMO_OFFLINE"):
        get(shelf, tmp_path, offline=True)
    assert shelf.asked == []


def test_two_at_once_fetch_it_once(shelf: Shelf, tmp_path: Path) -> None:
    threads = [threading.Thread(target=get, args=(shelf, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_whole(tmp_path / "tiny")
    assert len(shelf.asked) == 2


def test_a_cache_that_cannot_be_written_is_named(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"file/tiny: Not a directory, expected a folder"):
        get(shelf, tmp_path / "file")


def test_other_names_are_left_as_they_are(tmp_path: Path) -> None:
    places = CacheSettings(tmp_path, offline=True)
    for name in ("random-small", "./original", "/models/original"):
        assert locate(name, places, _nothing) == name
    with pytest.raises(DownloadError):
        locate("original", places, _nothing)


def test_the_catalogue_has_the_published_addresses() -> None:
    assert {"small", "medium", "original", "5.5b", "pubmed", "portuguese"} <= CATALOGUE.keys()
    original = CATALOGUE["original"].files[1]
    assert f"{PUBLISHED}/{original.path}" == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/2x4096_512_2048cnn_2xhighway/"
        "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert original.least < 374_434_792 < original.most  # its size in logs of its users
    for model in CATALOGUE.values():
        endings = [file.name.rpartition(".")[2] for file in model.files]
        assert endings[:2] == ["json", "hdf5"] and len({*endings}) == len(endings)


def test_the_cache_is_the_user_s(tmp_path: Path) -> None:
    code = "from elmo_serve.model_cache import default_cache; print(default_cache())"
    for value, expected in (
        (str(tmp_path), tmp_path / "elmo-serve"),
        ("relative", Path("/home/x/.cache/elmo-serve")),
    ):
        environment = {"HOME": "/home/x", "XDG_CACHE_HOME": value}
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        )
        assert Path(run.stdout.decode().strip()) == expected
    assert default_cache().name == "elmo-serve"
