"""Published models by name: fetched once into a cache folder, and checked from then on."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import httpx

from model.catalogue import CATALOGUE, PUBLISHED, File, Published

Show = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are there and the bytes that there will be."""

SUMS: Final = "SHA256SUMS"

_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_PART: Final = ".part"
_TAG: Final = ".part.tag"  # what the server calls the version that a part is of
_ATTEMPTS: Final = 5  # in a row that bring nothing
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class DownloadError(Exception):
    """A published model cannot be had. Its text is one line: what, found and expected."""


@dataclass(frozen=True, slots=True)
class Places:
    """The cache folder, the address to fetch from, and whether to fetch at all."""

    cache: Path
    mirror: str | None = None
    offline: bool = False
    pause_seconds: float = 1.0  # before another attempt, doubled each time

    @property
    def address(self) -> str:
        """Return where the published layout begins."""
        return (self.mirror or PUBLISHED).rstrip("/")


def default_cache() -> Path:
    """Return the user's cache folder for models (XDG Base Directory Specification).

    Raises DownloadError where there is none.
    """
    named = os.environ.get("XDG_CACHE_HOME", "")
    # the specification: a path that is not absolute is to be ignored
    try:
        base = Path(named) if named.startswith("/") else Path.home() / ".cache"
    except RuntimeError as error:  # a user without a home, as in a container
        raise DownloadError("the user has no home folder, expected ELMO_CACHE to be set") from error
    return base / "elmo-serve"


def located(model: str, places: Places, show: Show) -> str:
    """Return the path of a published model, fetched if need be; any other name as it is."""
    return str(fetch(CATALOGUE[model], places, show)) if model in CATALOGUE else model


def fetch(model: Published, places: Places, show: Show) -> Path:
    """Return the folder that holds the files of a model, each whole and checked.

    What is missing is fetched; what was fetched in part goes on from there. The first SHA-256 of
    every file is written down, as none is published, and each later use is held against it. Raises
    DownloadError where that cannot be.
    """
    folder = places.cache / model.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            sums = _read_sums(folder)
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
    _check_size(str(target), target.stat().st_size, file)
    digest = _digest(target)
    if target.name not in sums:
        _check_content(target, target.name, str(target))
        with _unless_read_only():
            _record(target, digest, sums)
    elif digest != sums[target.name]:
        raise DownloadError(
            f"{target}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first "
            f"download: remove the file to fetch it again"
        )


def _fetch_file(file: File, target: Path, places: Places, sums: dict[str, str], show: Show) -> None:
    url = f"{places.address}/{file.path}"
    if places.offline:
        raise DownloadError(f"{target}: does not exist, expected it there as ELMO_OFFLINE is set")
    part = target.with_name(target.name + _PART)
    _complete(url, file, part, places, show)
    try:
        _check_content(part, target.name, url)
    except DownloadError:
        part.unlink()
        raise
    digest = _digest(part)
    if sums.get(target.name, digest) != digest:
        part.unlink()
        raise DownloadError(
            f"{url}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first download"
        )
    with part.open("rb") as written:
        os.fsync(written.fileno())
    part.replace(target)
    _tag_of(part).unlink(missing_ok=True)
    _record(target, digest, sums)


def _complete(url: str, file: File, part: Path, places: Places, show: Show) -> None:
    """Fetch until the part is whole; a connection that is cut is taken up again."""
    failures = 0
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        while True:
            before = _size(part)
            try:
                total = _attempt(client, url, file, part, show)
                if total is None or _size(part) == total:
                    return
                reason = f"{_size(part):,} of {total:,} bytes came"
            except (httpx.TransportError, _LaterError) as error:
                reason = str(error) or type(error).__name__
            failures = 0 if _size(part) > before else failures + 1
            if failures >= _ATTEMPTS:
                raise DownloadError(
                    f"{url}: {reason}, after {failures} attempts that brought nothing"
                )
            time.sleep(places.pause_seconds * 2 ** max(failures - 1, 0))


class _LaterError(Exception):
    """The server could not answer now."""


def _attempt(client: httpx.Client, url: str, file: File, part: Path, show: Show) -> int | None:
    """Fetch what is missing of a part; return the size of the whole where the server says it."""
    tag = _tag_of(part)
    have = _size(part) if tag.exists() else 0
    headers = {"Accept-Encoding": "identity"}
    if have:
        # another version than that of the part is sent from its first byte
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text(encoding="latin-1")}
    with client.stream("GET", url, headers=headers) as response:
        _check_status(url, response)
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)
            raise _LaterError(f"status 416 for bytes {have:,} and on")
        total = _total(response)
        start = have
        if response.status_code == httpx.codes.PARTIAL_CONTENT:
            found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != have:
                part.unlink(missing_ok=True)
                raise _LaterError(f"another range than bytes {have:,} and on")
            total = int(found[2])
        else:
            start = 0
        if total is not None:
            _check_size(url, total, file)
        _remember(tag, response)
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            _pour(response, out, url, file, total or file.most, show)
    if total is None:
        _check_size(url, _size(part), file)
    return total


def _pour(
    response: httpx.Response, out: BinaryIO, url: str, file: File, total: int, show: Show
) -> None:
    show(file.name, out.tell(), total)
    for chunk in response.iter_raw():
        if out.tell() + len(chunk) > file.most:
            raise DownloadError(f"{url}: has more bytes than expected, at most {file.most:,}")
        out.write(chunk)
        show(file.name, out.tell(), total)


def _check_status(url: str, response: httpx.Response) -> None:
    status = response.status_code
    if status in (200, 206, 416):
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise DownloadError(f"{url}: came as {encoding!r:.40}, expected it as it is")
        return
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= 500:
        raise _LaterError(f"status {status}")
    raise DownloadError(f"{url}: the server answered {status}, expected 200")


def _total(response: httpx.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _remember(tag: Path, response: httpx.Response) -> None:
    """Write down which version comes; without a name for it a part cannot go on."""
    name = response.headers.get("ETag", "")
    if name.startswith("W/"):  # two weakly equal ones need not have the same bytes
        name = ""
    name = name or response.headers.get("Last-Modified", "")
    if name:
        tag.write_text(name, encoding="latin-1")
    else:
        tag.unlink(missing_ok=True)


def _check_size(label: str, size: int, file: File) -> None:
    if not file.least <= size <= file.most:
        raise DownloadError(
            f"{label}: has {size:,} bytes, expected {file.least:,} to {file.most:,}"
        )


def _check_content(path: Path, name: str, label: str) -> None:
    """Tell a page that some proxy sent from the file that was wanted."""
    if name.endswith(".json"):
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{label}: is not JSON, expected an options file") from error
    if name.endswith(".hdf5"):
        with path.open("rb") as stream:
            if stream.read(len(_HDF5)) != _HDF5:
                raise DownloadError(f"{label}: is no HDF5 file, expected weights")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _tag_of(part: Path) -> Path:
    return part.with_name(part.name.removesuffix(_PART) + _TAG)


def _read_sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS
    if not path.exists():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines())
    return {parts[1]: parts[0] for parts in lines if len(parts) == 2}


def _record(target: Path, digest: str, sums: dict[str, str]) -> None:
    """Write a sum down, so that `sha256sum --check` reads it too."""
    sums[target.name] = digest
    path = target.with_name(SUMS)
    aside = path.with_name(f".{SUMS}.new")
    text = "".join(f"{each}  {name}\n" for name, each in sorted(sums.items()))
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


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
