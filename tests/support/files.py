"""Folders without rights, a full disk, and gzipped tars."""

import io
import os
import resource
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Take the right to write away. root, who may write anywhere, is another user meanwhile."""
    with _limited(folder, 0o555):
        yield


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Take every right away, so that a path below cannot even be looked up; root as above."""
    with _limited(folder, 0):
        yield


@contextmanager
def _limited(folder: Path, mode: int) -> Iterator[None]:
    root = os.geteuid() == 0
    folder.chmod(mode)
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let no file grow beyond `room` bytes: a write beyond raises OSError (EFBIG).

    Children started inside the block inherit the limit. Python ignores SIGXFSZ, which the limit
    also sends.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_tar(path: Path, *members: tuple[str, bytes]) -> Path:
    """Write members, by their paths, in their order; return the path of the tar."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path
