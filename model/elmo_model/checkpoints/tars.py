"""Tar archives, gzipped: some of their files, read in one pass. Nothing is unpacked to a path."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import Readable, head

_GZIP_MAGIC = b"\x1f\x8b"
# Weights hardly shrink; what shrinks more than this is no checkpoint but a bomb.
_GREATEST_RATIO = 100
_GREATEST_ARCHIVE = 10_000  # entries
_HEADER = 512  # bytes

_ERRORS = (tarfile.TarError, zlib.error, OSError, EOFError)


def is_tar(path: Path) -> bool:
    """Tell whether a gzipped tar starts here."""
    if head(path, len(_GZIP_MAGIC)) != _GZIP_MAGIC:
        return False
    try:
        with gzip.open(path) as stream:
            return stream.read(_HEADER)[257:262] == b"ustar"
    except _ERRORS:
        return False


def names(path: Path) -> Iterator[str]:
    """Yield the names of the plain files, each before the file itself is unpacked.

    Raises CheckpointError as `read` does.
    """
    with _whole(path):
        yield from (name for name, _ in _files(path))


def read(path: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the plain files whose names are wanted, by name; of two the later one.

    Raises CheckpointError for an archive that is not whole, or larger than its bytes allow.
    """
    with _whole(path):
        return {name: content() for name, content in _files(path) if wanted(name)}


def _files(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield each plain file's name, and what reads it while it is its turn."""
    limit = _GREATEST_RATIO * max(path.stat().st_size, _HEADER)
    with gzip.open(path) as stream:
        bounded = _Bounded(stream, path, limit)
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= _GREATEST_ARCHIVE:
                    raise CheckpointError(
                        f"{path}: has more entries than expected, at most {_GREATEST_ARCHIVE:,}"
                    )
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield str(PurePosixPath(member.name)), file.read


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        raise CheckpointError(f"{path}: is not a whole tar archive: {error}") from error


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than its archive could honestly hold."""

    def __init__(self, stream: Readable, path: Path, limit: int) -> None:
        self._stream = stream
        self._path = path
        self._limit = limit
        self._given = 0

    def read(self, size: int = -1, /) -> bytes:
        content = self._stream.read(size)
        self._given += len(content)
        if self._given > self._limit:
            raise CheckpointError(
                f"{self._path}: unpacks to more than {self._limit:,} bytes, "
                f"expected at most {_GREATEST_RATIO} times its size"
            )
        return content
