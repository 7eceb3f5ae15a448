"""Download one file over HTTP, and resume a partial file if the server still has that version."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import httpx

from elmo_model.errors import shown
from elmo_model.models.published import File
from elmo_serve.models.cache import DownloadError, OnProgress, check_size, version_file

_ATTEMPTS: Final = 5  # attempts in a row without a new byte before the download fails
# Some servers refuse the names of HTTP libraries (406 for Python-urllib).
_USER_AGENT: Final = "Mozilla/5.0 (compatible; elmo-serve)"
_TIMEOUT: Final = httpx.Timeout(30.0, connect=10.0)  # seconds
# 18 digits: Python refuses to convert numbers of thousands of digits, which a server may send.
_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")
# A version is sent back in If-Range, which httpx encodes as ASCII.
_STRONG_ETAG: Final = re.compile(r'"[!#-~]{0,256}"')
_DATE: Final = re.compile(r"[ -~]{1,64}")


class _RetryError(Exception):
    """The attempt failed for a reason that may pass."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The download of one file from `url` into the partial file `part`."""

    url: str
    file: File
    part: Path
    on_progress: OnProgress

    def complete(self, pause_seconds: float) -> None:
        """Fetch until the part is whole, and reconnect after a cut.

        Raises DownloadError, which names the URL, after five attempts without a new byte, or for a
        response that cannot be the file. Raises OSError where the disk fails.
        """
        failures = 0
        headers = {"User-Agent": _USER_AGENT}
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=True, headers=headers) as client:
            while True:
                before = self._size()
                try:
                    total = self._attempt(client)
                    if total is None or self._size() == total:
                        return
                    reason = f"{self._size():,} of {total:,} bytes came"
                except (httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
                    raise DownloadError(f"{self.url}: {error} (redirects or address)") from error
                except httpx.InvalidURL as error:
                    raise DownloadError(f"{self.url}: is no address: {error}") from error
                except (httpx.HTTPError, _RetryError) as error:
                    reason = " ".join(f"{error}".split())[:200] or type(error).__name__
                failures = 0 if self._size() > before else failures + 1
                if failures >= _ATTEMPTS:
                    raise DownloadError(
                        f"{self.url}: {reason} ({failures} attempts without progress)"
                    )
                time.sleep(pause_seconds * 2 ** max(failures - 2, 0))

    def _attempt(self, client: httpx.Client) -> int | None:
        """Request the missing bytes; return the size of the whole file if the server states it."""
        headers = {"Accept-Encoding": "identity"}
        version = self._version()
        have = self._size() if version else 0
        if version and have:
            # If-Range: the server sends the whole file if it has another version now.
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with client.stream("GET", self.url, headers=headers) as response:
            self._check_status(response)
            start, total = self._span(response, have)
            if total is not None:
                check_size(self.url, total, self.file)
            self._remember_version(response)
            with self.part.open("r+b" if start else "wb") as out:
                out.seek(start)
                self._copy(response, out, total or self.file.max_bytes)
        if total is None:
            check_size(self.url, self._size(), self.file)
        return total

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise self._discarded(f"status 416 for a part of {self._size():,} bytes")
        if status == httpx.codes.TOO_MANY_REQUESTS or status >= 500:
            raise _RetryError(f"status {status}")
        if status not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise DownloadError(f"{self.url}: the server answered {status}, expected 200")
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise DownloadError(f"{self.url}: came as {shown(encoding)}, expected it as it is")

    def _span(self, response: httpx.Response, have: int) -> tuple[int, int | None]:
        """Return the first byte that the response holds, and the size of the whole file."""
        if response.status_code != httpx.codes.PARTIAL_CONTENT:
            length = response.headers.get("Content-Length")  # h11 has checked it
            return 0, int(length) if length else None
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != have:
            raise self._discarded(f"another range than bytes {have:,} to the end")
        return have, int(found[2])

    def _copy(self, response: httpx.Response, out: BinaryIO, total: int) -> None:
        self.on_progress(self.file.name, out.tell(), total)
        for chunk in response.iter_raw():
            if out.tell() + len(chunk) > self.file.max_bytes:
                raise DownloadError(
                    f"{self.url}: has more bytes than expected, at most {self.file.max_bytes:,}"
                )
            out.write(chunk)
            self.on_progress(self.file.name, out.tell(), total)

    def _discarded(self, reason: str) -> _RetryError:
        self.part.unlink(missing_ok=True)
        return _RetryError(reason)

    def _version(self) -> str | None:
        """Return the recorded version of the part; None if it has none that can be sent."""
        try:
            text = version_file(self.part).read_text(encoding="ascii")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return text if _STRONG_ETAG.fullmatch(text) or _DATE.fullmatch(text) else None

    def _remember_version(self, response: httpx.Response) -> None:
        """Record the version of this response. A part without a version cannot be resumed.

        A weak ETag does not promise equal bytes, so Last-Modified is used instead.
        """
        etag = response.headers.get("ETag", "")
        date = response.headers.get("Last-Modified", "")
        if _STRONG_ETAG.fullmatch(etag):
            version_file(self.part).write_text(etag, encoding="ascii")
        elif _DATE.fullmatch(date):
            version_file(self.part).write_text(date, encoding="ascii")
        else:
            version_file(self.part).unlink(missing_ok=True)

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0
