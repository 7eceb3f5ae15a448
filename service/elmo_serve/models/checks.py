"""Checks of the files of a published model: size, first bytes, published and recorded digests."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import IO, Final

from elmo_model.errors import ElmoError
from elmo_model.files.atomic import write_bytes
from elmo_model.models.published import File

SUMS: Final = "SHA256SUMS"

_CHUNK: Final = 1 << 20  # bytes that are hashed at once

_KINDS: Final = (
    (".hdf5", b"\x89HDF\r\n\x1a\n", "HDF5 file, expected weights"),
    (".zip", b"PK\x03\x04", "zip archive, expected a model"),
    (".tar.gz", b"\x1f\x8b", "gzipped archive, expected a model"),
)
"""Ending, first bytes and kind of files that are not text."""


class DownloadError(ElmoError):
    """A published model cannot be had. The message is one line: file or URL, found, expected."""


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


def check_recorded(label: str, digest: str, recorded: str, advice: str = "") -> None:
    """Raise DownloadError unless a SHA-256 is the one that was recorded at the first download."""
    if digest != recorded:
        expected = f"expected {recorded} as at its first download{advice}"
        raise DownloadError(f"{label}: its SHA-256 is {digest}, {expected}")


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
