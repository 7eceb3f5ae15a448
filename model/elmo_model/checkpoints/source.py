"""Where files lie: a folder, a zip or a file itself, behind one interface with bounded reads."""

import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from elmo_model.checkpoints.checkpoint import CheckpointError

ZIP_MAGIC = b"PK\x03\x04"

# Weights hardly shrink in a zip; what shrinks more than this is no checkpoint but a bomb.
_GREATEST_RATIO = 100
_GREATEST_ARCHIVE = 10_000  # entries

# RuntimeError stands for an encrypted entry, NotImplementedError for an unknown compression.
_UNPACK_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
)


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The files that lie directly in a folder."""

    path: Path

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    def files(self) -> list[str]:
        """Return the names of the files, sorted."""
        try:
            return sorted(entry.name for entry in self.path.iterdir() if entry.is_file())
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def label(self, file: str) -> str:
        """Return how messages call this file."""
        return str(self.path / file)

    def read(self, file: str, limit: int) -> bytes:
        """Return a whole small file. Raises CheckpointError if it is larger than `limit` bytes."""
        try:
            with (self.path / file).open("rb") as stream:
                return bounded(stream, self.label(file), limit)
        except OSError as error:
            raise _unreadable(self.path / file, error) from error

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        """Open a large file that can be read from any place in it."""
        try:
            stream = (self.path / file).open("rb")
        except OSError as error:
            raise _unreadable(self.path / file, error) from error
        with stream:
            yield stream


@dataclass(frozen=True, slots=True)
class ZipSource:
    """The files of one folder of a zip archive. Nothing is ever unpacked to a path."""

    path: Path

    @property
    def name(self) -> str:
        """The archive's name without its ending."""
        return self.path.stem

    def files(self) -> list[str]:
        """Return the names of the entries, sorted; macOS' shadow entries left out."""
        with self._archive() as archive:
            entries = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        return sorted(entry for entry in entries if "__MACOSX" not in PurePosixPath(entry).parts)

    def label(self, file: str) -> str:
        """Return how messages call this file."""
        return f"{self.path}:{file}"

    def read(self, file: str, limit: int) -> bytes:
        """Return a whole small entry. Raises CheckpointError if it is larger than `limit` bytes."""
        with self._archive() as archive:
            return self._read(archive, file, limit)

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        """Open a large entry, read into memory, where it can be read from any place in it."""
        with self._archive() as archive:
            entry = archive.getinfo(file)
            if entry.file_size > _GREATEST_RATIO * max(entry.compress_size, 1):
                raise CheckpointError(
                    f"{self.label(file)}: unpacks to {entry.file_size:,} bytes from "
                    f"{entry.compress_size:,}, expected at most {_GREATEST_RATIO} times as many"
                )
            content = self._read(archive, file, entry.file_size)
        yield io.BytesIO(content)

    def _read(self, archive: zipfile.ZipFile, file: str, limit: int) -> bytes:
        try:
            with archive.open(file) as stream:
                return bounded(stream, self.label(file), limit)
        except _UNPACK_ERRORS as error:
            raise CheckpointError(f"{self.label(file)}: cannot be unpacked: {error}") from error

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            archive = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError) as error:
            raise CheckpointError(f"{self.path}: is not a readable zip: {error}") from error
        with archive:
            if len(archive.infolist()) > _GREATEST_ARCHIVE:
                raise CheckpointError(
                    f"{self.path}: has {len(archive.infolist()):,} entries, "
                    f"expected at most {_GREATEST_ARCHIVE:,}"
                )
            yield archive


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Files of an archive that was read into memory, by name."""

    path: Path
    contents: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The archive's name without its ending."""
        return self.path.name.split(".")[0]

    def files(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self.contents)

    def label(self, file: str) -> str:
        """Return how messages call this file."""
        return f"{self.path}:{file}"

    def read(self, file: str, limit: int) -> bytes:
        """Return a whole small file. Raises CheckpointError if it is larger than `limit` bytes."""
        return bounded(io.BytesIO(self.contents[file]), self.label(file), limit)

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        """Open a file that can be read from any place in it."""
        yield io.BytesIO(self.contents[file])


Source = FolderSource | ZipSource | MemorySource


def head(path: Path, size: int) -> bytes:
    """Return the first bytes of a file. Raises CheckpointError where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(size)
    except OSError as error:
        raise _unreadable(path, error) from error


class Readable(Protocol):
    """What gives bytes when it is asked for some."""

    def read(self, size: int, /) -> bytes: ...


def bounded(stream: Readable, label: str, limit: int) -> bytes:
    """Return what a stream holds. Raises CheckpointError if that is more than `limit` bytes."""
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise CheckpointError(f"{label}: is larger than expected, at most {limit:,} bytes")
    return content


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be read: {error.strerror or error}")
