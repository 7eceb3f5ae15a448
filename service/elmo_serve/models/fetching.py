"""From the name of a model to the path of its files, downloaded once and verified on every use."""

from __future__ import annotations

import errno
import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from elmo_model.files.atomic import publish, write_bytes
from elmo_model.files.locks import locked_file
from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_model.models.published import File, Published
from elmo_serve.models.cache import (
    PART,
    CacheSettings,
    DownloadError,
    OnProgress,
    cache_of_environment,
    check_size,
    version_file,
)

SUMS: Final = "SHA256SUMS"

_CHUNK: Final = 1 << 20  # bytes of a member of an archive that are hashed at once

_KINDS: Final = (
    (".hdf5", b"\x89HDF\r\n\x1a\n", "HDF5 file, expected weights"),
    (".zip", b"PK\x03\x04", "zip archive, expected a model"),
    (".tar.gz", b"\x1f\x8b", "gzipped archive, expected a model"),
)
"""Ending, first bytes and kind of files that are not text."""


Progress = Callable[[], AbstractContextManager[OnProgress]]
"""Makes the context in which a model is downloaded; it gives a function that shows the progress."""


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
    downloaded, partial files resumed. Few checksums are published, so the SHA-256 of each file is
    recorded at its first download and compared on each later use. A lock lets one process at a time
    work on a model. Raises DownloadError.
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
    elif digest != sums[target.name]:
        raise DownloadError(
            f"{target}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first "
            f"download: remove the file to fetch it again"
        )


def _fetch_file(
    file: File,
    target: Path,
    settings: CacheSettings,
    sums: dict[str, str],
    on_progress: OnProgress,
) -> None:
    if settings.offline:
        raise DownloadError(
            f"{target}: does not exist, expected it there as ELMO_OFFLINE is set (--offline of "
            "elmo serve); without it `elmo download` fetches the model"
        )
    part = target.with_name(target.name + PART)
    url = _fetch_part(file, part, settings, on_progress)
    digest = digest_of(part)
    if sums.get(target.name, digest) != digest:
        part.unlink()
        raise DownloadError(
            f"{url}: its SHA-256 is {digest}, expected {sums[target.name]} as at its first download"
        )
    publish(part, target)
    version_file(part).unlink(missing_ok=True)
    record(target, digest, sums)


def _fetch_part(file: File, part: Path, settings: CacheSettings, on_progress: OnProgress) -> str:
    """Fetch a file from the first of its addresses that has it; return that address.

    Raises DownloadError, which names every address and its reason.
    """
    # httpx, which a model in the cache need not wait for
    from elmo_serve.models.transfer import Transfer  # noqa: PLC0415

    reasons = []
    for url in file.urls(settings.mirror):
        try:
            Transfer(url, file, part, on_progress).complete(settings.pause_seconds)
        except DownloadError as error:
            reasons.append(str(error))
            continue
        try:
            check_content(part, file.name, url)
            check_digests(part, file, url)
        except DownloadError as error:
            part.unlink()
            reasons.append(str(error))
            continue
        return url
    others = "ELMO_MIRROR names another address, and copied files are taken (docs/models.md)"
    raise DownloadError("; ".join((*reasons, others)))


@contextmanager
def _unless_read_only() -> Iterator[None]:
    """Ignore errors of a read-only folder: a complete cache is usable without lock and digests."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise


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
                name = _member(archive, member.name, label)
                with archive.open(name) as stream:
                    _check_digest(stream, "md5", member.md5, f"{label}:{name}")
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DownloadError(f"{label}: is not a whole zip archive: {error}") from error


def _check_digest(stream: IO[bytes], algorithm: str, expected: str, label: str) -> None:
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    while data := stream.read(_CHUNK):
        hashed.update(data)
    if hashed.hexdigest() != expected:
        raise DownloadError(
            f"{label}: its {algorithm.upper()} is {hashed.hexdigest()}, expected {expected} as "
            "published"
        )


def _member(archive: zipfile.ZipFile, name: str, label: str) -> str:
    """Return the path of a member by its last part. Raises DownloadError if there is none."""
    found = [path for path in archive.namelist() if path.rpartition("/")[2] == name]
    if not found:
        raise DownloadError(f"{label}: holds no {name}, expected it as published")
    return found[0]


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
