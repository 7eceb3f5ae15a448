"""One file of a published model over HTTP, in three attempts at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from elmo_client.http import variables
from elmo_model.errors import shown
from elmo_model.models.published import File
from elmo_serve.models.checks import DownloadError, check_size

_ATTEMPTS: Final = 3  # of one address; a failure that may pass is tried again

# Some servers refuse the names of HTTP libraries (406 for Python-urllib).
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; elmo-serve)",
    "Accept-Encoding": "identity",
}

OnProgress = Callable[[str, int, int], None]  # as `download.OnProgress`


def transfer(
    client: httpx.Client,
    url: str,
    file: File,
    part: Path,
    pause_seconds: float,
    on_progress: OnProgress,
) -> None:
    """Write the file at `url` to `part`, in three attempts at most; each starts from the beginning.

    Raises DownloadError, which names the URL, and OSError where the disk fails.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(pause_seconds * 2 ** (attempt - 1))
        try:
            with client.stream("GET", url) as response:
                status = response.status_code
                if status != httpx.codes.TOO_MANY_REQUESTS and status < 500:
                    _write(response, url, file, part, on_progress)
                    return
                reason = f"the server answered {status}"
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.TooManyRedirects) as error:
            raise DownloadError(f"{url}: {error}") from error
        except httpx.HTTPError as error:
            reason = " ".join(f"{error}".split())[:200] or type(error).__name__
    where = f", with {names} set" if (names := variables()) else ""
    raise DownloadError(f"{url}: {reason} ({_ATTEMPTS} attempts{where})")


def new_client() -> httpx.Client:
    """Return a client with the proxies and certificates of the environment.

    Raises DownloadError, which names the variables, where httpx cannot use them.
    """
    timeout = httpx.Timeout(30.0, connect=10.0)  # seconds
    try:
        return httpx.Client(timeout=timeout, follow_redirects=True, headers=_HEADERS)
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        reason = " ".join(f"{error}".split())
        raise DownloadError(f"of {variables()} in the environment: {reason}") from error


def _write(
    response: httpx.Response, url: str, file: File, part: Path, on_progress: OnProgress
) -> None:
    """Write the body of a response to `part`. Raises DownloadError if it cannot be the file."""
    if response.status_code != 200:
        raise DownloadError(f"{url}: the server answered {response.status_code}, expected 200")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise DownloadError(f"{url}: came as {shown(encoding)}, expected it as it is")
    total = file.max_bytes
    if length := response.headers.get("Content-Length"):  # h11 has checked that it is a number
        total = int(length)
        check_size(url, total, file)
    with part.open("wb") as out:
        on_progress(file.name, 0, total)
        for chunk in response.iter_raw():
            if out.tell() + len(chunk) > file.max_bytes:
                raise DownloadError(
                    f"{url}: has more bytes than expected, at most {file.max_bytes:,}"
                )
            out.write(chunk)
            on_progress(file.name, out.tell(), total)
    check_size(url, part.stat().st_size, file)
