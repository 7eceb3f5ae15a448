"""Atomic writes: a file gets its name only after its bytes are on the disk.

Every file that must never be seen half-written goes through this module. Each function writes to a
temporary file in the folder of the target, calls fsync, renames it to the target, and calls fsync
on the folder. A reader sees the old file or the new one. A failure leaves the old file as it was
and no temporary file; a killed process may leave a temporary file, `.elmo-*.tmp`.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

TEMPORARY: Final = ".elmo-"
"""How the name of a temporary file begins."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of an empty temporary file; rename it to `path` if the body succeeds.

    For writers that open files themselves, such as h5py. The umask sets the mode of the file.
    Raises OSError, which names `path`, where the folder cannot be written to or the disk is full.
    """
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}.tmp")
    try:
        # tempfile.mkstemp would make the file readable for its owner alone.
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        mode = stat.S_IMODE(os.fstat(file).st_mode)
        os.close(file)
        try:
            yield temporary
            if stat.S_IMODE(temporary.stat().st_mode) != mode:
                temporary.chmod(mode)  # safetensors 0.8 puts a file of its owner alone in its place
            publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        if error.filename in (temporary, str(temporary)):  # the user knows `path` alone
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def open_replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file, open for writing bytes; rename it to `path` if the body succeeds.

    Raises OSError as `replacing` does.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        yield file
        # `replacing` publishes after this block has closed the file, and so has flushed it.


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file, or leave `path` as it was. Raises OSError as `replacing` does."""
    with open_replacing(path) as file:
        file.write(data)


def publish(written: Path, path: Path) -> None:
    """Rename the file or folder `written` to `path`, after all its bytes are on the disk.

    Both must be on one file system. `path` may be a file, which is replaced, or an empty folder.
    Raises OSError; `path` is then as it was.
    """
    # Opened before: an error after the change could not say that nothing has changed.
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(written)
        written.replace(path)
        _sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    """Call fsync on a file, or on a folder and everything in it."""
    if path.is_dir():
        for inner in path.iterdir():
            _sync(inner)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync_descriptor(descriptor)
    finally:
        os.close(descriptor)


def _sync_descriptor(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems have no fsync for folders
            raise
