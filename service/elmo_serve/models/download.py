"""From the name of a model to the path of its files, downloaded once and verified on every use."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from elmo_model.errors import ElmoError, shown
from elmo_model.files.atomic import publish, write_bytes
from elmo_model.files.locks import locked_file
from elmo_model.models import catalogue
from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_model.models.published import File, Published

if TYPE_CHECKING:  # `elmo embed --server` needs no pydantic, and a model in the cache no httpx
    import httpx

    from elmo_serve.settings import Settings

SUMS: Final = "SHA256SUMS"

_ATTEMPTS: Final = 3  # of one address; a failure that may pass is tried again

# Some servers refuse the names of HTTP libraries (406 for Python-urllib).
_HEADERS: Final = {
    "User-Agent": "Mozilla/5.0 (compatible; elmo-serve)",
    "Accept-Encoding": "identity",
}
_CHUNK: Final = 1 << 20  # bytes that are hashed at once

_KINDS: Final = (
    (".hdf5", b"\x89HDF\r\n\x1a\n", "HDF5 file, expected weights"),
    (".zip", b"PK\x03\x04", "zip archive, expected a model"),
    (".tar.gz", b"\x1f\x8b", "gzipped archive, expected a model"),
)
"""Ending, first bytes and kind of files that are not text."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes on the disk and the bytes of the whole file."""

Progress = Callable[[], AbstractContextManager[OnProgress]]
"""Opens the display of one download; yields the function that shows its progress."""


class DownloadError(ElmoError):
    """A published model cannot be had. The message is one line: file or URL, found, expected."""


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The cache folder, an optional mirror, and whether the network may be used.

    `pause_seconds` is the wait after the first failed attempt of a download; the next one is twice
    as long.
    """

    cache: Path
    mirror: str | None = None
    offline: bool = False
    pause_seconds: float = 1.0


def cache_folder(settings: Settings) -> Path | None:
    """Return the cache folder of a server; None where none is set and the user has no home."""
    return catalogue.cache_folder(settings.cache)


def with_cache(settings: Settings) -> Settings:
    """Return settings with the cache folder of this machine, as a server is started with."""
    return settings.model_copy(update={"cache": cache_folder(settings)})


def cache_settings(settings: Settings) -> CacheSettings:
    """Return the cache settings of a server. Raises DownloadError for a user without a home."""
    if (folder := cache_folder(settings)) is None:
        raise DownloadError("the user has no home folder, expected ELMO_CACHE to be set")
    return CacheSettings(folder, settings.mirror, settings.offline)


def cache_of_environment(**options: str | None) -> CacheSettings:
    """Return the cache settings of ELMO_CACHE, ELMO_MIRROR and ELMO_OFFLINE.

    `options` of a command that are not None take the place of their variables. Raises SettingsError
    for a value that is not allowed, and DownloadError as `cache_settings`.
    """
    from elmo_serve.settings import option, variable  # noqa: PLC0415
    from elmo_serve.settings.text import from_strings  # noqa: PLC0415

    values = {name: os.environ.get(variable(name)) for name in ("cache", "mirror", "offline")}
    given = {name: value for name, value in options.items() if value is not None}
    called = {name: option(name) for name in given if values[name] != given[name]}
    return cache_settings(from_strings({**values, **given}, called))


@contextmanager
def unseen() -> Iterator[OnProgress]:
    """Show no progress."""
    yield lambda _name, _done, _total: None


def locate(
    model: str,
    cache: Callable[[], CacheSettings] = cache_of_environment,
    progress: Progress = unseen,
) -> str:
    """Return a built-in name as it is spelt, the path of a published model, or a path unchanged.

    A name, in any case, wins over a file or folder of that name; `./small` is always the path. A
    published model is downloaded if the cache lacks it. `cache` is called for a published model
    alone: a user may have no home folder.

    Raises DownloadError for a published model that cannot be had.
    """
    name = canonical(model)
    if name in BUILT_IN:
        return name
    published = published_model(model)
    if published is None:
        return model
    with progress() as on_progress:
        return str(fetch(published, cache(), on_progress))


def fetch(model: Published, settings: CacheSettings, on_progress: OnProgress) -> Path:
    """Return the path of a model whose files are all there, whole and verified.

    It is the folder that holds them or, for a model in one archive, the archive. Missing files are
    downloaded. Few checksums are published, so the SHA-256 of each file is recorded at its first
    download and compared on each later use. A lock lets one process at a time work on a model.

    Raises DownloadError.
    """
    folder = settings.cache / model.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            with _unless_read_only():
                # One process at a time. A download takes minutes: the wait has no limit.
                stack.enter_context(locked_file(folder / ".lock"))
            sums = read_sums(folder)
            for file in model.files:
                target = folder / file.name
                if target.exists():
                    _verify(target, file, sums)
                else:
                    _fetch_file(file, target, settings, sums, on_progress)
    except OSError as error:
        raise DownloadError(
            f"{error.filename or folder}: {error.strerror or error}, expected a folder to write to"
        ) from error
    (first, *others) = model.files
    return folder / first.name if first.is_archive and not others else folder


def _verify(target: Path, file: File, sums: dict[str, str]) -> None:
    """Compare a file with its size range and its digest; record the digest of a new file."""
    check_size(str(target), target.stat().st_size, file)
    digest = digest_of(target)
    if target.name not in sums:  # the user has put the file there
        check_content(target, target.name, str(target))
        check_digests(target, file, str(target))
        with _unless_read_only():
            record(target, digest, sums)
    else:
        again = ": remove the file to fetch it again"
        _check_recorded(str(target), digest, sums[target.name], again)


def _check_recorded(label: str, digest: str, recorded: str, advice: str = "") -> None:
    if digest != recorded:
        expected = f"expected {recorded} as at its first download{advice}"
        raise DownloadError(f"{label}: its SHA-256 is {digest}, {expected}")


def _fetch_file(
    file: File,
    target: Path,
    settings: CacheSettings,
    sums: dict[str, str],
    on_progress: OnProgress,
) -> None:
    """Fetch a file from the first of its addresses that has it.

    It is written beside its target and gets its name when its checks have passed. Raises
    DownloadError, which names every address and its reason.
    """
    if settings.offline:
        raise DownloadError(
            f"{target}: does not exist, expected it there as ELMO_OFFLINE is set (--offline of "
            "elmo serve); without it `elmo download` fetches the model"
        )
    part = target.with_name(f"{target.name}.part")
    reasons = []
    try:
        with _client() as client:
            for url in file.urls(settings.mirror):
                try:
                    _transfer(client, url, file, part, settings.pause_seconds, on_progress)
                    check_content(part, file.name, url)
                    check_digests(part, file, url)
                except DownloadError as error:
                    reasons.append(str(error))
                    continue
                digest = digest_of(part)
                _check_recorded(url, digest, sums.get(target.name, digest))
                publish(part, target)
                record(target, digest, sums)
                return
    finally:
        part.unlink(missing_ok=True)
    others = "ELMO_MIRROR names another address, and copied files are taken (docs/models.md)"
    raise DownloadError("; ".join((*reasons, others)))


def _transfer(
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
    import httpx  # noqa: PLC0415

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
    where = f", with {names} set" if (names := _variables()) else ""
    raise DownloadError(f"{url}: {reason} ({_ATTEMPTS} attempts{where})")


def _client() -> httpx.Client:
    """Return a client with the proxies and certificates of the environment.

    Raises DownloadError, which names the variables, where httpx cannot use them.
    """
    import httpx  # noqa: PLC0415

    timeout = httpx.Timeout(30.0, connect=10.0)  # seconds
    try:
        return httpx.Client(timeout=timeout, follow_redirects=True, headers=_HEADERS)
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        reason = " ".join(f"{error}".split())
        raise DownloadError(f"of {_variables()} in the environment: {reason}") from error


def _variables() -> str:
    """Return the names of the variables of proxies and certificates that are set."""
    from elmo_client.http import variables  # noqa: PLC0415 - httpx

    return variables()


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


@contextmanager
def _unless_read_only() -> Iterator[None]:
    """Ignore errors of a read-only folder: a complete cache is usable without lock and digests."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise


def check_size(label: str, size: int, file: File) -> None:
    """Raise DownloadError, whose message begins with `label`, if `size` (bytes) is out of range."""
    if not file.min_bytes <= size <= file.max_bytes:
        raise DownloadError(
            f"{label}: has {size:,} bytes, expected {file.min_bytes:,} to {file.max_bytes:,}"
        )


def check_content(path: Path, name: str, label: str) -> None:
    """Raise DownloadError if the content does not fit the name.

    A proxy may answer with a page of its own, such as a login form, and status 200.
    """
    if name.endswith(".json"):
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{label}: is not JSON, expected an options file") from error
    for ending, start, what in _KINDS:
        if name.endswith(ending):
            with path.open("rb") as stream:
                if stream.read(len(start)) != start:
                    raise DownloadError(f"{label}: is no {what}")


def check_digests(path: Path, file: File, label: str) -> None:
    """Raise DownloadError if a file differs from a checksum that was published for it."""
    for algorithm, expected in file.digests:
        with path.open("rb") as stream:
            _check_digest(stream, algorithm, expected, label)
    if not file.members:
        return
    try:
        with zipfile.ZipFile(path) as archive:
            for member in file.members:
                names = (name for name in archive.namelist() if Path(name).name == member.name)
                if (name := next(names, None)) is None:
                    raise DownloadError(f"{label}: holds no {member.name}, expected it")
                with archive.open(name) as stream:
                    _check_digest(stream, "md5", member.md5, f"{label}:{name}")
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DownloadError(f"{label}: is not a whole zip archive: {error}") from error


def _check_digest(stream: IO[bytes], algorithm: str, expected: str, label: str) -> None:
    if (digest := _digest(stream, algorithm)) != expected:
        raise DownloadError(
            f"{label}: its {algorithm.upper()} is {digest}, expected {expected} as published"
        )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return _digest(stream, "sha256")


def _digest(stream: IO[bytes], algorithm: str) -> str:
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    while data := stream.read(_CHUNK):
        hashed.update(data)
    return hashed.hexdigest()


def read_sums(folder: Path) -> dict[str, str]:
    """Return the digests in the SHA256SUMS of a folder by file name; none without such a file."""
    path = folder / SUMS
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {parts[1]: parts[0] for parts in lines if len(parts) == 2}


def record(target: Path, digest: str, sums: dict[str, str]) -> None:
    """Add a digest to `sums` and to the file SHA256SUMS, which `sha256sum --check` reads."""
    sums[target.name] = digest
    text = "".join(f"{each}  {name}\n" for name, each in sorted(sums.items()))
    write_bytes(target.with_name(SUMS), text.encode("utf-8"))
