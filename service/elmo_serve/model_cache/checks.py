"""Is a file what was published: its size, its kind, and the sum it had at its first download."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

from elmo_model.catalogue import File
from elmo_serve.model_cache.download_error import DownloadError

SUMS: Final = "SHA256SUMS"

_HDF5: Final = b"\x89HDF\r\n\x1a\n"


def check_size(label: str, size: int, file: File) -> None:
    """Raise DownloadError, about what `label` names, unless a size in bytes is within bounds."""
    if not file.least <= size <= file.most:
        raise DownloadError(
            f"{label}: has {size:,} bytes, expected {file.least:,} to {file.most:,}"
        )


def check_content(path: Path, name: str, label: str) -> None:
    """Tell a page that some proxy sent from the file that was wanted: raises DownloadError."""
    if name.endswith(".json"):
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{label}: is not JSON, expected an options file") from error
    if name.endswith(".hdf5"):
        with path.open("rb") as stream:
            if stream.read(len(_HDF5)) != _HDF5:
                raise DownloadError(f"{label}: is no HDF5 file, expected weights")


def digest_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_sums(folder: Path) -> dict[str, str]:
    """Return the sums that a folder's SHA256SUMS lists, by the names of files."""
    path = folder / SUMS
    if not path.exists():
        return {}
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines())
    return {parts[1]: parts[0] for parts in lines if len(parts) == 2}


def record(target: Path, digest: str, sums: dict[str, str]) -> None:
    """Write a sum down, so that `sha256sum --check` reads it too."""
    sums[target.name] = digest
    path = target.with_name(SUMS)
    aside = path.with_name(f".{SUMS}.new")
    text = "".join(f"{each}  {name}\n" for name, each in sorted(sums.items()))
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
