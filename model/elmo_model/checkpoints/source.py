"""Where the files of a checkpoint lie: in a folder, a zip or memory. One interface, bounded reads.

No archive is unpacked to a path, so names in an archive cannot reach other files.
"""

import io
import json
import lzma
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from elmo_model.checkpoints.checkpoint import CheckpointError

ZIP_MAGIC = b"PK\x03\x04"

MAX_RATIO = 100
"""Unpacked size over packed size above which an archive is refused as a decompression bomb.

Weights hardly compress: real checkpoints stay below 2. A greater value lets a small file fill more
memory.
"""
MAX_ENTRIES = 10_000
"""Entries of an archive above which it is refused; a greater value only costs time."""

# zipfile raises RuntimeError for an encrypted entry, NotImplementedError for an unknown
# compression, UnicodeDecodeError for a name that is flagged as UTF-8 and is not.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    UnicodeDecodeError,
)


@dataclass(frozen=True, slots=True)
class Source(ABC):
    """Files by their names; `path` is that of the folder or archive."""

    path: Path

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the folder, or of the archive without its ending."""

    @abstractmethod
    def files(self) -> list[str]:
        """Return the names of the files, sorted."""

    def label(self, file: str) -> str:
        """Return the name of a file for messages."""
        return f"{self.path}:{file}"

    def read(self, file: str, limit: int) -> bytes:
        """Return a small file. Raises CheckpointError if it is larger than `limit` bytes."""
        with self.open(file) as stream:
            return bounded(stream, self.label(file), limit)

    @abstractmethod
    def open(self, file: str) -> AbstractContextManager[BinaryIO]:
        """Open a large file as a seekable stream."""


class FolderSource(Source):
    """The files directly in a folder."""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def files(self) -> list[str]:
        try:
            return sorted(entry.name for entry in self.path.iterdir() if entry.is_file())
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def label(self, file: str) -> str:
        return str(self.path / file)

    def read(self, file: str, limit: int) -> bytes:
        try:
            return super().read(file, limit)
        except OSError as error:
            raise _unreadable(self.path / file, error) from error

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        try:
            stream = (self.path / file).open("rb")
        except OSError as error:
            raise _unreadable(self.path / file, error) from error
        with stream:
            yield stream


@dataclass(frozen=True, slots=True)
class FilesSource(FolderSource):
    """Files given by absolute path, in any folders; `path` is the folder of the first."""

    chosen: tuple[str, ...]

    def files(self) -> list[str]:
        return sorted(self.chosen)


class ZipSource(Source):
    """The files of a zip archive, by their paths in it, without the shadow entries of macOS."""

    @property
    def name(self) -> str:
        return self.path.stem

    def files(self) -> list[str]:
        with open_zip(self.path, str(self.path)) as archive:
            # A damaged archive may have an entry without a name, which `is_dir` cannot take.
            named = [entry for entry in archive.infolist() if entry.filename]
            entries = [entry.filename for entry in named if not entry.is_dir()]
        return sorted(entry for entry in entries if "__MACOSX" not in PurePosixPath(entry).parts)

    def read(self, file: str, limit: int) -> bytes:
        with open_zip(self.path, str(self.path)) as archive:
            return self._read(archive, file, limit)

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        """Open an entry, read into memory."""
        with open_zip(self.path, str(self.path)) as archive:
            try:
                entry = archive.getinfo(file)
            except KeyError:
                raise _missing(self.label(file)) from None
            refuse_bomb(entry, self.label(file))
            content = self._read(archive, file, entry.file_size)
        yield io.BytesIO(content)

    def _read(self, archive: zipfile.ZipFile, file: str, limit: int) -> bytes:
        try:
            with archive.open(file) as stream:
                return bounded(stream, self.label(file), limit)
        except KeyError:
            raise _missing(self.label(file)) from None
        except _ZIP_ERRORS as error:
            raise CheckpointError(f"{self.label(file)}: cannot be unpacked: {error}") from error


@dataclass(frozen=True, slots=True)
class MemorySource(Source):
    """Files of an archive that was read into memory, by name."""

    contents: Mapping[str, bytes]

    @property
    def name(self) -> str:
        return self.path.name.split(".")[0]

    def files(self) -> list[str]:
        return sorted(self.contents)

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        if file not in self.contents:
            raise _missing(self.label(file))
        yield io.BytesIO(self.contents[file])


def source_at(path: Path) -> Source | None:
    """Return the files of a folder or zip; None if `path` is another kind of file."""
    if path.is_dir():
        return FolderSource(path)
    return ZipSource(path) if head(path, len(ZIP_MAGIC)) == ZIP_MAGIC else None


def files_at(path: Path) -> tuple[Source, list[str]]:
    """Return the files of a folder or zip and their names, or one file by its name."""
    source = source_at(path)
    if source is None:
        return FolderSource(path.parent), [path.name]
    return source, source.files()


@contextmanager
def open_zip(file: Path | BinaryIO, label: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raises CheckpointError, which begins with `label`, for a damaged one."""
    try:
        archive = zipfile.ZipFile(file)
    except _ZIP_ERRORS as error:
        raise CheckpointError(f"{label}: is not a readable zip: {error}") from error
    with archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise CheckpointError(
                f"{label}: has {len(archive.infolist()):,} entries, "
                f"expected at most {MAX_ENTRIES:,}"
            )
        yield archive


def refuse_bomb(entry: zipfile.ZipInfo, label: str) -> None:
    """Raise CheckpointError for an entry that would unpack to far more bytes than it has."""
    if entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        raise CheckpointError(
            f"{label}: unpacks to {entry.file_size:,} bytes from "
            f"{entry.compress_size:,}, expected at most {MAX_RATIO} times as many"
        )


def head(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file. Raises CheckpointError if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise _unreadable(path, error) from error


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes: ...


def bounded(stream: Readable, label: str, limit: int) -> bytes:
    """Return the rest of a stream. Raises CheckpointError if it is more than `limit` bytes."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise CheckpointError(f"{label}: is larger than expected, at most {limit:,} bytes")
    return content


def json_object(label: str, content: bytes | str) -> dict[str, Any]:
    """Return the object of a JSON text. Raises CheckpointError for anything else."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{label}: holds a {type(values).__name__}, expected an object")
    return values


def only(source: Source, found: Sequence[str], wanted: str, expected: str) -> str:
    """Return the only file that was found. Raises CheckpointError for several, and for none.

    The messages say `expected`, and that there is no `wanted`.
    """
    if len(found) != 1:
        has = ", ".join(found[:5]) or f"no {wanted}"
        raise CheckpointError(f"{source.path}: holds {has}, expected {expected}")
    return found[0]


def _missing(label: str) -> CheckpointError:
    return CheckpointError(f"{label}: does not exist, expected it with the other files")


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be read: {error.strerror or error}")
