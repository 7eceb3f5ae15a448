"""The files of a checkpoint in a folder, a zip or a tar: one type, three makers, bounded reads.

No archive is unpacked to a path, so names in an archive cannot reach other files.
"""

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from elmo_model.checkpoints.checkpoint import CheckpointError

ZIP_MAGIC = b"PK\x03\x04"
_GZIP_MAGIC = b"\x1f\x8b"
_TAR_HEADER = 512  # bytes
_PIECE = 1 << 20  # bytes that are read at once

MAX_RATIO = 100
"""Unpacked size over packed size above which an archive is refused as a decompression bomb.

Weights hardly compress: real checkpoints stay below 2. A greater value lets a small file fill more
memory.
"""
MAX_ENTRIES = 10_000
"""Entries of an archive above which it is refused; a greater value only costs time."""

# zipfile raises RuntimeError for an encrypted entry, UnicodeDecodeError for a name that is flagged
# as UTF-8 and is not.
_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    UnicodeDecodeError,
)

# zipfile unpacks 4 KiB of the other kinds at once, whatever that gives: gigabytes of bzip2.
_KINDS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class Readable(Protocol):
    """A binary stream."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Source:
    """Files by their names, sorted. `path` is that of the folder or archive, `name` the model's.

    Made by `in_folder`, `zipped` and `tarred`.
    """

    path: Path
    name: str
    files: tuple[str, ...]
    is_folder: bool
    _opener: Callable[[str], AbstractContextManager[BinaryIO]]

    def label(self, file: str) -> str:
        """Return the name of a file for messages."""
        return str(self.path / file) if self.is_folder else f"{self.path}:{file}"

    def named(self, name: str) -> list[str]:
        """Return the files of a name, in whatever folders of an archive."""
        return [file for file in self.files if PurePosixPath(file).name == name]

    def read(self, file: str, limit: int) -> bytes:
        """Return a small file. Raises CheckpointError if it is larger than `limit` bytes."""
        with self.open(file) as stream:
            return bounded(stream, self.label(file), limit)

    @contextmanager
    def open(self, file: str) -> Iterator[BinaryIO]:
        """Open a large file as a seekable stream. Raises CheckpointError where it is missing."""
        if not self.is_folder and file not in self.files:
            raise CheckpointError(
                f"{self.label(file)}: does not exist, expected it with the other files"
            )
        with self._opener(file) as stream:
            yield stream


def in_folder(path: Path, files: Iterable[str] | None = None) -> Source:
    """Return the files directly in a folder, or chosen ones, which may have absolute paths.

    Raises CheckpointError for a folder that cannot be listed.
    """

    @contextmanager
    def opener(file: str) -> Iterator[BinaryIO]:
        with _readable(str(path / file)):
            stream = (path / file).open("rb")
        with stream:
            yield stream

    if files is None:
        with _readable(str(path)), os.scandir(path) as entries:
            files = [entry.name for entry in entries if entry.is_file()]
    return Source(path, path.resolve().name, _sorted(files), True, opener)


def zipped(path: Path) -> Source:
    """Return the files of a zip archive by their paths in it. Each is opened in memory.

    Raises CheckpointError for a damaged archive.
    """

    @contextmanager
    def opener(file: str) -> Iterator[BinaryIO]:
        label = f"{path}:{file}"
        with open_zip(path, str(path)) as archive:
            entry = archive.getinfo(file)
            refuse_bomb(archive, entry, label)
            with _readable(label), archive.open(entry) as stream:
                content = bounded(stream, label, entry.file_size)
        yield io.BytesIO(content)

    with open_zip(path, str(path)) as archive:
        # A damaged archive may have an entry without a name, which `is_dir` cannot take.
        named = [entry for entry in archive.infolist() if entry.filename]
        files = [entry.filename for entry in named if not entry.is_dir()]
    return Source(path, path.stem, _sorted(files), False, opener)


def tarred(path: Path, wanted: Callable[[str], bool]) -> Source:
    """Return the regular files of a gzipped tar whose paths are `wanted`, read into memory.

    The last of two files with one path counts. Raises CheckpointError for a damaged archive, and
    for one that unpacks to more than MAX_RATIO times its size.
    """
    with _readable(str(path)):
        contents = {
            name: bounded(file, f"{path}:{name}", limit)
            for name, file, limit in _members(path)
            if wanted(name)
        }

    @contextmanager
    def opener(file: str) -> Iterator[BinaryIO]:
        yield io.BytesIO(contents[file])

    return Source(path, path.name.split(".")[0], _sorted(contents), False, opener)


def source_at(path: Path) -> Source | None:
    """Return the files of a folder or zip; None if `path` is another kind of file."""
    if path.is_dir():
        return in_folder(path)
    return zipped(path) if head(path, len(ZIP_MAGIC)) == ZIP_MAGIC else None


@contextmanager
def open_zip(file: Path | BinaryIO, label: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raises CheckpointError, which begins with `label`, for a damaged one."""
    with _readable(label):
        archive = zipfile.ZipFile(file)
    with archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise CheckpointError(f"{label}: has more than {MAX_ENTRIES:,} entries")
        yield archive


def refuse_bomb(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, label: str) -> None:
    """Raise CheckpointError for an entry that would unpack to far more bytes than it has.

    The directory of the archive may overstate these, but not beyond the size of the archive.
    """
    if entry.compress_type not in _KINDS:
        raise CheckpointError(
            f"{label}: is compressed by method {entry.compress_type}, expected stored or deflated"
        )
    assert archive.fp is not None, "the archive is open"
    packed = min(entry.compress_size, archive.fp.seek(0, io.SEEK_END))
    if entry.file_size > MAX_RATIO * max(packed, 1):
        raise CheckpointError(
            f"{label}: unpacks to {entry.file_size:,} bytes from {packed:,}, "
            f"expected at most {MAX_RATIO} times as many"
        )


def is_gzip(path: Path) -> bool:
    """Return whether a file begins as gzipped tar archives do."""
    return head(path, len(_GZIP_MAGIC)) == _GZIP_MAGIC


def tar_names(path: Path) -> Iterator[str]:
    """Yield the paths of the regular files; a caller that stops early unpacks no more.

    Raises CheckpointError as `tarred` does.
    """
    with _readable(str(path)):
        yield from (name for name, _, _ in _members(path))


def _members(path: Path) -> Iterator[tuple[str, Readable, int]]:
    """Yield the path of each regular file, a stream that ends with the next one, and its size."""
    limit = MAX_RATIO * max(path.stat().st_size, _TAR_HEADER)
    with gzip.open(path) as stream:
        counted = _Counted(stream, str(path), limit)
        with tarfile.open(fileobj=counted, mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= MAX_ENTRIES:
                    raise CheckpointError(f"{path}: has more than {MAX_ENTRIES:,} entries")
                name = str(PurePosixPath(member.name))
                if member.issparse():  # its holes take no bytes of the archive
                    raise CheckpointError(f"{path}:{name}: is sparse, expected all of its bytes")
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield name, file, member.size


class _Counted(io.RawIOBase):
    """A stream that raises CheckpointError after `limit` bytes, against decompression bombs."""

    def __init__(self, stream: Readable, label: str, limit: int) -> None:
        self._stream, self._label, self._limit, self._left = stream, label, limit, limit

    def read(self, size: int = -1, /) -> bytes:
        content = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise CheckpointError(
                f"{self._label}: unpacks to more than {self._limit:,} bytes, "
                f"expected at most {MAX_RATIO} times its size"
            )
        return content


def bounded(stream: Readable, label: str, limit: int) -> bytes:
    """Return the rest of a stream.

    Raises CheckpointError if it is damaged, or has more than `limit` bytes.
    """
    content = io.BytesIO()
    with _readable(label):
        while piece := stream.read(min(_PIECE, limit + 1 - content.tell())):
            content.write(piece)
    if content.tell() > limit:
        raise CheckpointError(f"{label}: is larger than expected, at most {limit:,} bytes")
    return content.getvalue()


def head(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file. Raises CheckpointError if it cannot be read."""
    with _readable(str(path)), path.open("rb") as stream:
        return stream.read(size)


def only(source: Source, files: Sequence[str], wanted: str) -> str:
    """Return the one of some files. Raises CheckpointError for several, and for none."""
    if len(files) == 1:
        return files[0]
    if not files:
        raise CheckpointError(f"{source.path}: holds no {wanted}, expected one")
    hint = ": name the file itself" if source.is_folder else ""
    raise CheckpointError(
        f"{source.path}: holds {', '.join(files[:5])}, expected one {wanted}{hint}"
    )


def _sorted(files: Iterable[str]) -> tuple[str, ...]:
    """Sort names, without the files that macOS adds: `._x`, and those below `__MACOSX` in a zip."""
    paths = {file: PurePosixPath(file) for file in files}
    added = {f for f, path in paths.items() if "__MACOSX" in path.parts or path.name[:2] == "._"}
    return tuple(sorted(paths.keys() - added))


@contextmanager
def _readable(label: str) -> Iterator[None]:
    """Translate the errors of files and archives into CheckpointError."""
    try:
        yield
    except _ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{label}: cannot be read: {reason}") from error
