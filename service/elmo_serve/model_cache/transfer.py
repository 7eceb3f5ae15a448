"""One file over HTTP: what was fetched in part goes on from there, if it is still the same file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import httpx

from elmo_model.catalogue import File
from elmo_serve.model_cache.cache import CacheSettings
from elmo_serve.model_cache.checks import check_size
from elmo_serve.model_cache.download_error import DownloadError

OnProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are there and the bytes that there will be."""

PART: Final = ".part"

_TAG: Final = ".part.tag"  # what the server calls the version that a part is of
_ATTEMPTS: Final = 5  # in a row that bring nothing
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def complete(url: str, file: File, part: Path, places: CacheSettings, show: OnProgress) -> None:
    """Fetch until the part is whole; a connection that is cut is taken up again.

    Raises DownloadError when attempts bring nothing, and for an answer that is not the file.
    """
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


def _attempt(
    client: httpx.Client, url: str, file: File, part: Path, show: OnProgress
) -> int | None:
    """Fetch what is missing of a part; return the size of the whole where the server says it."""
    tag = tag_of(part)
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
            check_size(url, total, file)
        _remember(tag, response)
        with part.open("r+b" if start else "wb") as out:
            out.seek(start)
            _pour(response, out, url, file, total or file.most, show)
    if total is None:
        check_size(url, _size(part), file)
    return total


def _pour(
    response: httpx.Response, out: BinaryIO, url: str, file: File, total: int, show: OnProgress
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


def tag_of(part: Path) -> Path:
    """Return the file that says which version a part is of."""
    return part.with_name(part.name.removesuffix(PART) + _TAG)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
