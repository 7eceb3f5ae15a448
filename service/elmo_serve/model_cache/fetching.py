"""Published models, whole and checked, in the cache folder."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from elmo_model.catalogue import CATALOGUE, File, Published
from elmo_serve.model_cache.cache import CacheSettings
from elmo_serve.model_cache.checks import check_content, check_size, digest_of, read_sums, record
from elmo_serve.model_cache.download_error import DownloadError
from elmo_serve.model_cache.transfer import PART, OnProgress, complete, tag_of


def locate(model: str, places: CacheSettings, show: OnProgress) -> str:
    """Return the path of a published model, fetched if need be; any other name as it is."""
    return str(fetch(CATALOGUE[model], places, show)) if model in CATALOGUE else model


def fetch(model: Published, places: CacheSettings, show: OnProgress) -> Path:
    """Return the folder that holds the files of a model, each whole and checked.

    What is missing is fetched; what was fetched in part goes on from there. The first SHA-256 of
    every file is written down, as none is published, and each later use is held against it. Raises
    DownloadError where that cannot be.
    """
    folder = places.cache / model.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            sums = read_sums(folder)
            for file in model.files:
                target = folder / file.name
                if target.exists():
                    _check(target, file, sums)
                else:
                    _fetch_file(file, target, places, sums, show)
    except OSError as error:
        raise DownloadError(
            f"{error.filename or folder}: {error.strerror or error}, expected a folder to write to"
        ) from error
    return folder


def _check(target: Path, file: File, sums: dict[str, str]) -> None:
    """Hold a file against its bounds and its sum; one that was put there by hand gets a sum."""
    check_size(str(target), target.stat().st_size, file)
    digest = digest_of(target)
    if target.name not in sums:
        check_content(target, target.name, str(target))
        with _unless_read_only():
            record(target, digest, sums)
    elif digest != sums[target.name]:
        raise DownloadError(
            f"{target}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first "
            f"download: remove the file to fetch it again"
        )


def _fetch_file(
    file: File, target: Path, places: CacheSettings, sums: dict[str, str], show: OnProgress
) -> None:
    url = f"{places.address}/{file.path}"
    if places.offline:
        raise DownloadError(f"{target}: does not exist, expected it there as ELMO_OFFLINE is set")
    part = target.with_name(target.name + PART)
    complete(url, file, part, places, show)
    try:
        check_content(part, target.name, url)
    except DownloadError:
        part.unlink()
        raise
    digest = digest_of(part)
    if sums.get(target.name, digest) != digest:
        part.unlink()
        raise DownloadError(
            f"{url}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first download"
        )
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(target)
    tag_of(part).unlink(missing_ok=True)
    record(target, digest, sums)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch a model; another waits, and finds it there."""
    with ExitStack() as stack:
        with _unless_read_only():
            lock = stack.enter_context((folder / ".lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _unless_read_only() -> Iterator[None]:
    """Do without what a cache that is mounted read-only, and is whole, has no need for."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
