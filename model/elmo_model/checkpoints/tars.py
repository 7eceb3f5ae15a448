"""Gzipped tar archives: chosen files, read into memory in one pass."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from elmo_model.checkpoints.checkpoint import CheckpointError
from elmo_model.checkpoints.source import MAX_ENTRIES, MAX_RATIO, Readable, head

_GZIP_MAGIC = b"\x1f\x8b"
_HEADER = 512  # bytes of a tar header

_ERRORS = (tarfile.TarError, zlib.error, OSError, EOFError)


def is_tar(path: Path) -> bool:
    """Return whether a file begins as gzipped tar archives do."""
    if head(path, len(_GZIP_MAGIC)) != _GZIP_MAGIC:
        return False
    try:
        with gzip.open(path) as stream:
            return stream.read(_HEADER)[257:262] == b"ustar"
    except _ERRORS:
        return False


def names(path: Path) -> Iterator[str]:
    """Yield the paths of the regular files; a caller that stops early unpacks no more.

    Raises CheckpointError as `read` does.
    """
    with _translated_errors(path):
        yield from (name for name, _ in _files(path))


def read(path: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """Return the regular files whose paths are `wanted`. The last of two with one path counts.

    Raises CheckpointError for a damaged archive, or one that unpacks to more than MAX_RATIO times
    its size.
    """
    with _translated_errors(path):
        return {name: content() for name, content in _files(path) if wanted(name)}


def _files(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the path of each regular file, and a function that reads it before the next one."""
    limit = MAX_RATIO * max(path.stat().st_size, _HEADER)
    with gzip.open(path) as stream:
        bounded = _BoundedStream(stream, path, limit)
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= MAX_ENTRIES:
                    raise CheckpointError(
                        f"{path}: has more entries than expected, at most {MAX_ENTRIES:,}"
                    )
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield str(PurePosixPath(member.name)), file.read


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except _ERRORS as error:
        raise CheckpointError(f"{path}: is not a whole tar archive: {error}") from error


class _BoundedStream(io.RawIOBase):
    """A stream that raises CheckpointError after `limit` bytes, against decompression bombs."""

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
                f"expected at most {MAX_RATIO} times its size"
            )
        return content
