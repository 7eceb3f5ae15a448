"""From the name of a model to the path of its files, downloaded once and verified on every use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_model.files.atomic import publish
from elmo_model.files.locks import locked_file
from elmo_model.models import catalogue
from elmo_model.models.catalogue import BUILT_IN, canonical, published_model
from elmo_model.models.published import File, Published
from elmo_serve.models.checks import (
    DownloadError,
    check_content,
    check_digests,
    check_recorded,
    check_size,
    digest_of,
    read_sums,
    record,
)

if TYPE_CHECKING:  # `elmo embed --server` needs no pydantic
    from elmo_serve.settings import Settings

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes on the disk and the bytes of the whole file."""

Progress = Callable[[], AbstractContextManager[OnProgress]]
"""Opens the display of one download; yields the function that shows its progress."""


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
        check_recorded(str(target), digest, sums[target.name], again)


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
    from elmo_serve.models.transfer import new_client, transfer  # noqa: PLC0415 - httpx

    part = target.with_name(f"{target.name}.part")
    reasons = []
    try:
        with new_client() as client:
            for url in file.urls(settings.mirror):
                try:
                    transfer(client, url, file, part, settings.pause_seconds, on_progress)
                    check_content(part, file.name, url)
                    check_digests(part, file, url)
                except DownloadError as error:
                    reasons.append(str(error))
                    continue
                digest = digest_of(part)
                check_recorded(url, digest, sums.get(target.name, digest))
                publish(part, target)
                record(target, digest, sums)
                return
    finally:
        part.unlink(missing_ok=True)
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
