"""The files with which a killed run continues: those beside OUTPUT, and that in a folder of parts.

OUTPUT.part holds the bytes of all arrays computed so far, one after another. OUTPUT.journal says
which run they belong to and how many of the bytes count; it is replaced as a whole. Bytes of the
part beyond those were written by a run that died, and are cut off.

The journal is written before the first byte of the part. A part with content and without a journal
therefore belongs to somebody else, and is never changed.

The parts of a folder are renamed into place when they are whole: a part that is there is finished.
`_manifest.json`, written before the first part, names the run that they belong to.
"""

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import lock_now
from elmo_serve.files.inputs import FileError
from elmo_serve.files.text import part_name
from elmo_serve.http.media_types.encoder import raw

Vectors = NDArray[Any]

_CHUNK = 1 << 22  # bytes read at once to verify a part
_VERSION: Final = 1

MANIFEST: Final = "_manifest.json"
"""Readers of a folder of Parquet leave out names that begin so: pyarrow, Spark, Dask."""


class _OtherRunError(FileError):
    """A whole part of elmo embed that this run cannot continue; `--force` discards it."""


@dataclass(slots=True)
class Progress:
    """How far a run has come; `state` is what its source needs to continue."""

    sentences: int = 0
    tokens: int = 0
    size: int = 0
    checksum: int = 0
    state: Mapping[str, Vectors] = field(default_factory=dict)


class PartFile:
    """The part and the journal of an output, locked against other processes."""

    def __init__(self, output: Path, run: Mapping[str, Any], file: BinaryIO) -> None:
        self.path, self.journal, self.temporary = _names(output)
        self.progress = Progress()
        self._run = dict(run)
        self._file = file

    @classmethod
    @contextmanager
    def open(cls, output: Path, run: Mapping[str, Any], *, discard: bool) -> Iterator["PartFile"]:
        """Continue where an earlier process of the same `run` ended, or begin.

        Raises FileError if another process holds the part, if a file under one of the three names
        is not one of `elmo embed`, or if the part belongs to another run or is damaged. The last
        two are overwritten with `discard`.
        """
        _refuse_foreign_files(output)
        with _names(output)[0].open("a+b", buffering=0) as file:
            _lock(file, Path(file.name))
            part = cls(output, run, file)
            part._resume(discard)
            yield part

    @property
    def kept(self) -> int:
        """The sentences that the journal counts."""
        return int(_journal(self.journal)[0]["sentences"])

    def append(self, arrays: Iterable[Vectors], tokens: int) -> None:
        """Write some arrays. They count from the next `keep` on."""
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
        """Write the journal: all arrays appended so far count, and `state` continues them."""
        self.progress.state = state
        entry = {
            "version": _VERSION,
            "run": self._run,
            "sentences": self.progress.sentences,
            "tokens": self.progress.tokens,
            "size": self.progress.size,
            "checksum": self.progress.checksum,
        }
        data = safetensors.numpy.save(dict(state), {"journal": json.dumps(entry)})
        atomic_files.write_bytes(self.journal, data)

    def arrays(self, shapes: Iterable[tuple[int, ...]]) -> Iterator[Vectors]:
        """Yield the arrays again, float32, in these shapes.

        Raises FileError if the part no longer holds the bytes that were written.
        """
        checksum = 0
        with self.path.open("rb") as file:
            for shape in shapes:
                array = np.empty(shape, np.float32)
                data = raw(array) if array.size else memoryview(bytearray())
                if file.readinto(data) != len(data):
                    raise FileError(f"{self.path} is shorter than it was written")
                checksum = zlib.crc32(data, checksum)
                yield array
        if checksum != self.progress.checksum:
            raise FileError(f"{self.path} was changed after it was written; --force starts over")

    def remove(self) -> None:
        """Remove both files, after the output is complete."""
        self.journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _resume(self, discard: bool) -> None:
        if self.journal.exists():
            try:
                self.progress = self._read()
            except _OtherRunError:
                if not discard:
                    raise
        self._file.truncate(self.progress.size)
        self.keep(self.progress.state)

    def _read(self) -> Progress:
        found, state = _journal(self.journal)
        _refuse_other_run(self.path, found["run"], self._run)
        counts = {name: int(found[name]) for name in ("sentences", "tokens", "size", "checksum")}
        progress = Progress(**counts, state=state)
        self._verify(progress)
        return progress

    def _verify(self, progress: Progress) -> None:
        # After a power cut the disk may have the journal and not all bytes that it counts.
        checksum, left = 0, progress.size
        with self.path.open("rb") as file:
            while left and (data := file.read(min(_CHUNK, left))):
                checksum = zlib.crc32(data, checksum)
                left -= len(data)
        if left or checksum != progress.checksum:
            raise _OtherRunError(
                f"{self.path} does not hold what {self.journal.name} says; --force starts over"
            )


@contextmanager
def folder_of_parts(
    folder: Path, run: Mapping[str, Any], parts: Mapping[str, int], ending: str, *, discard: bool
) -> Iterator[None]:
    """Hold a folder of the parts of a run, which an earlier process of the same run may have begun.

    `parts` is the number of parts of each file, `ending` that of their names. `discard` removes the
    parts of an earlier run, and no other file.

    Raises:
        FileError: the folder holds files of somebody else, another process writes to it, or a part
            would lie where the manifest lies; or it belongs to another run and is not discarded.
    """
    path = folder / MANIFEST
    if any(Path(file).parts[0] == MANIFEST for file in parts):
        raise FileError(f"the corpus has a file or folder {MANIFEST}, the name of the manifest")
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists() and any(folder.iterdir()):
        raise FileError(f"{folder} is not empty and has no {MANIFEST}; name another folder")
    entry = {"version": _VERSION, "run": dict(run), "parts": dict(parts), "ending": ending}
    wanted = json.dumps(entry, ensure_ascii=False, indent=1).encode() + b"\n"
    with path.open("a+b", buffering=0) as file:
        _lock(file, folder)
        file.seek(0)
        data = file.read()
        is_torn = data != wanted and wanted.startswith(data)  # before the first part was begun
        if not is_torn:
            found = _manifest(data, path)
            if discard:
                _remove_parts(folder, found)
            else:
                _refuse_other_run(folder, found["run"], run)
        if discard or is_torn:
            _rewrite(file, wanted)
        _remove_leavings(folder, parts)
        yield
        _remove_leavings(folder, parts)


def _manifest(data: bytes, path: Path) -> dict[str, Any]:
    """Return the content of a manifest. Raises FileError for another file."""
    try:
        entry: dict[str, Any] = json.loads(data)
        if entry["version"] != _VERSION or not entry["run"].keys() or not entry["ending"]:
            raise ValueError(f"version {entry['version']}")
        sum(entry["parts"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is no manifest of elmo embed; name another folder") from error
    return entry


def _rewrite(file: BinaryIO, data: bytes) -> None:
    """Replace the content of an open file, on the disk as well."""
    file.truncate(0)
    while data:
        data = data[file.write(data) :]
    os.fsync(file.fileno())


def _remove_parts(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Remove every part that the run of a manifest may have written."""
    for file, count in manifest["parts"].items():
        for number in range(count):
            (folder / part_name(file, number, manifest["ending"])).unlink(missing_ok=True)


def _remove_leavings(folder: Path, files: Iterable[str]) -> None:
    """Remove the temporary files of parts that a process had begun before it was killed."""
    for file in files:
        for path in (folder / file).glob(f"{atomic_files.TEMPORARY}*"):
            path.unlink(missing_ok=True)


def _refuse_other_run(path: Path, found: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    for name in sorted(run.keys() | found.keys()):
        if run.get(name) != found.get(name):
            begun, this = (
                "none" if each.get(name) is None else repr(each[name]) for each in (found, run)
            )
            difference = f"{name} {begun}, and this is {this}"
            if name == "text":  # digests
                difference = "another text"
            raise _OtherRunError(f"{path} was begun with {difference}; --force starts over")


def _lock(file: BinaryIO, path: Path) -> None:
    """Hold a file until it is closed. Raises FileError if another process writes `path`."""
    try:
        lock_now(file)
    except BlockingIOError:
        raise FileError(f"{path} is being written by another process") from None


def _names(output: Path) -> tuple[Path, Path, Path]:
    """Return the paths of the part, the journal and the output while it is written."""
    part, journal, temporary = (
        output.with_name(f"{output.name}.{ending}") for ending in ("part", "journal", "new")
    )
    return part, journal, temporary


def _refuse_foreign_files(output: Path) -> None:
    part, journal, temporary = _names(output)
    if journal.exists():
        _journal(journal)
        return
    for path in (part, temporary):
        if path.exists() and (path.is_dir() or path.stat().st_size):
            raise FileError(
                f"{path} exists and was not written by elmo embed; move it, or name another OUTPUT"
            )


def _journal(path: Path) -> tuple[dict[str, Any], dict[str, Vectors]]:
    """Return the entry of a journal and the state. Raises FileError for another file."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            entry = json.loads(file.metadata()["journal"])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if entry["version"] != _VERSION or not isinstance(entry["run"], dict):
            raise ValueError(f"version {entry['version']}")
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} exists and is not a journal of elmo embed; move it, or name another OUTPUT"
        ) from error
    return entry, state
