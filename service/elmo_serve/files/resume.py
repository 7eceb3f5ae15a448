"""Vectors on their way to a file, so that a killed run goes on where it was.

Beside OUTPUT stand OUTPUT.part, the bytes of all arrays one after another, and OUTPUT.journal,
which says what run they belong to and how much of them counts. The journal is replaced whole; what
the part has beyond it was written by a run that died, and is cut off.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from elmo_serve.files.sentence import FileError
from elmo_serve.http.media_types.encoder import raw

Vectors = NDArray[Any]

_CHUNK = 1 << 22
_VERSION: Final = 1


@dataclass(slots=True)
class Progress:
    """How far a run has come; `state` is what its source needs to go on."""

    sentences: int = 0
    tokens: int = 0
    size: int = 0
    checksum: int = 0
    state: Mapping[str, Vectors] = field(default_factory=dict)


class Part:
    """The part and its journal, held against other processes."""

    def __init__(self, output: Path, run: Mapping[str, Any]) -> None:
        self.path = output.with_name(output.name + ".part")
        self.journal = output.with_name(output.name + ".journal")
        self.progress = Progress()
        self._run = dict(run)
        self._file = self.path.open("a+b", buffering=0)

    @classmethod
    @contextmanager
    def opened(cls, output: Path, run: Mapping[str, Any], *, afresh: bool) -> Iterator[Part]:
        """Take up what an earlier process of the same `run` has left.

        Raises FileError where another process holds it; and where what is there is of another run,
        or not whole, unless it is to begin `afresh` then.
        """
        part = cls(output, run)
        try:
            part._hold()
            part._take_up(afresh)
            yield part
        finally:
            part._file.close()

    def append(self, arrays: Iterable[Vectors], tokens: int) -> None:
        """Write some arrays; they count from the next `keep` on."""
        progress = self.progress
        for array in arrays:
            data = raw(array)
            progress.checksum = zlib.crc32(data, progress.checksum)
            progress.size += len(data)
            progress.sentences += 1
            while data:
                data = data[self._file.write(data) :]
        progress.tokens += tokens

    def keep(self, state: Mapping[str, Vectors]) -> None:
        """Let all that was appended count."""
        self.progress.state = state
        says = {
            "version": _VERSION,
            "run": self._run,
            "sentences": self.progress.sentences,
            "tokens": self.progress.tokens,
            "size": self.progress.size,
            "checksum": self.progress.checksum,
        }
        temporary = self.journal.with_name(self.journal.name + ".new")
        temporary.write_bytes(safetensors.numpy.save(dict(state), {"journal": json.dumps(says)}))
        temporary.replace(self.journal)

    def arrays(self, shapes: Iterable[tuple[int, ...]]) -> Iterator[Vectors]:
        """Yield the arrays again, float32 and of these shapes.

        Raises FileError where the part is not what was written.
        """
        checksum = 0
        with self.path.open("rb") as file:
            for shape in shapes:
                array = np.empty(shape, np.float32)
                data = raw(array) if array.size else memoryview(bytearray())
                if file.readinto(data) != len(data):
                    raise FileError(f"{self.path} is shorter than what was written to it")
                checksum = zlib.crc32(data, checksum)
                yield array
        if checksum != self.progress.checksum:
            raise FileError(f"{self.path} is not what was written to it; --force starts over")

    def remove(self) -> None:
        """Forget the run: its output stands."""
        self.journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _hold(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"{self.path} is being written by another process") from None

    def _take_up(self, afresh: bool) -> None:
        try:
            self.progress = self._read()
        except FileNotFoundError:
            self.progress = Progress()
        except FileError:
            if not afresh:
                raise
            self.progress = Progress()
        self._file.truncate(self.progress.size)

    def _read(self) -> Progress:
        try:
            with safetensors.safe_open(self.journal, framework="numpy") as file:
                says = json.loads(file.metadata()["journal"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            run = says["run"]
            progress = Progress(
                says["sentences"], says["tokens"], says["size"], says["checksum"], state
            )
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{self.journal} is no journal of this program; --force starts over"
            ) from error
        for name in sorted(self._run.keys() | run.keys()):
            if run.get(name) != self._run.get(name):
                raise FileError(
                    f"{self.path} was begun with {name} {run.get(name)!r}, and this is "
                    f"{self._run.get(name)!r}; --force starts over"
                )
        self._verify(progress)
        return progress

    def _verify(self, progress: Progress) -> None:
        # After a power cut the journal may be on the disk, and what it speaks of not.
        checksum, left = 0, progress.size
        with self.path.open("rb") as file:
            while left and (data := file.read(min(_CHUNK, left))):
                checksum = zlib.crc32(data, checksum)
                left -= len(data)
        if left or checksum != progress.checksum:
            raise FileError(
                f"{self.path} is not what {self.journal.name} says of it; --force starts over"
            )


def sync(path: Path) -> None:
    """Bring a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
