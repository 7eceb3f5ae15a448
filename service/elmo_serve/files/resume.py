"""Folders of parts, with which a killed run continues.

A part is renamed into place when it is whole: a part that is there is finished. `_manifest.json`,
written before the first part, names the run that they belong to. The parts of one file, OUTPUT, lie
in the folder OUTPUT.parts until they are joined.
"""

import json
import math
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import lock_now
from elmo_serve.files.inputs import FileError
from elmo_serve.files.text import part_name
from elmo_serve.output import npy_header

Vectors = NDArray[Any]

_VERSION: Final = 1
_ENDING: Final = ".npz"
_DAMAGED: Final = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)

# A part is written after so many seconds of work, or so many bytes of vectors, which are held in
# memory until then. A killed run loses the work of at most one part; smaller ones are more files.
PART_SECONDS: Final = 5.0
_PART_BYTES: Final = 64 * 1024**2

MANIFEST: Final = "_manifest.json"
"""Readers of a folder of Parquet leave out names that begin so: pyarrow, Spark, Dask."""


def folder_of(output: Path) -> Path:
    """Return the folder of the parts of a file."""
    return output.with_name(f"{output.name}.parts")


@dataclass(slots=True)
class FileParts:
    """The parts of one file so far.

    `lengths` are the tokens of the sentences of each part. `state` is all that its source needs to
    continue after the last part.
    """

    folder: Path
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    state: Mapping[str, Vectors] = field(default_factory=dict)

    def read(self) -> None:
        """Find the parts of earlier processes, up to one that is not whole; remove those after."""
        while (found := self._next()) is not None:
            lengths, self.state = found
            self.lengths.append(lengths)
        _remove_numbered(self.folder, _ENDING, range(len(self.lengths), sys.maxsize))

    @property
    def sentences(self) -> int:
        """The sentences of all parts."""
        return sum(map(len, self.lengths))

    @property
    def tokens(self) -> int:
        """The tokens of all parts."""
        return sum(int(each.sum()) for each in self.lengths)

    def keep(
        self,
        groups: Iterable[Sequence[Vectors]],
        lengths: Iterator[int],
        state: Callable[[], Mapping[str, Vectors]],
        seconds: float = PART_SECONDS,
        most: int = _PART_BYTES,
    ) -> list[Vectors]:
        """Write groups of vectors into parts; return the last ones, less than a part.

        `lengths` are the tokens of each sentence; `state` returns that after the last group. A part
        is the work of `seconds`, or `most` bytes.
        """
        arrays: list[Vectors] = []
        size, begun = 0, time.monotonic()
        for group in groups:
            arrays += group
            size += sum(array.nbytes for array in group)
            if size >= most or time.monotonic() - begun >= seconds:
                counts = np.fromiter(lengths, np.int64, len(arrays))
                self._write(counts, arrays, state())
                arrays, size, begun = [], 0, time.monotonic()
        return arrays

    def arrays(self, shape: Callable[[int], tuple[int, ...]]) -> Iterator[Vectors]:
        """Yield the vectors of all parts; `shape` maps tokens to the shape of an array.

        Raises FileError for a part that has changed since.
        """
        for number, lengths in enumerate(self.lengths):
            path = self._path(number)
            try:
                with zipfile.ZipFile(path) as archive, archive.open("vectors.npy") as member:
                    np.lib.format.read_magic(member)
                    np.lib.format.read_array_header_1_0(member)
                    for tokens in lengths:
                        wanted = shape(int(tokens))
                        data = member.read(4 * math.prod(wanted))
                        yield np.frombuffer(data, "<f4").reshape(wanted)
            except _DAMAGED as error:
                raise FileError(f"{path} was changed after it was written") from error

    def _path(self, number: int) -> Path:
        return self.folder / part_name(".", number, _ENDING)

    def _write(
        self, lengths: NDArray[Any], arrays: Sequence[Vectors], state: Mapping[str, Vectors]
    ) -> None:
        """Write a part. After a power cut it may be damaged, which its checksums show."""
        temporary = self.folder / f"{atomic_files.TEMPORARY}part.tmp"
        size = sum(array.size for array in arrays)
        small = {"lengths": lengths, **{f"state {name}": array for name, array in state.items()}}
        with zipfile.ZipFile(temporary, "w") as archive:
            with archive.open("vectors.npy", "w", force_zip64=True) as member:
                member.write(npy_header((size,), "<f4"))
                for array in arrays:
                    member.write(array.tobytes())
            for name, array in small.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array)
        temporary.replace(self._path(len(self.lengths)))
        self.lengths.append(lengths)
        self.state = state

    def _next(self) -> tuple[NDArray[np.int64], dict[str, Vectors]] | None:
        """Return the lengths and the state of the next part; None for one that is not whole."""
        path = self._path(len(self.lengths))
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.testzip() is not None:
                    return None
            with np.load(path) as part:
                names = [name for name in part.files if name.startswith("state ")]
                return part["lengths"], {name.removeprefix("state "): part[name] for name in names}
        except _DAMAGED:
            return None


@contextmanager
def parts_of_file(
    output: Path, run: Mapping[str, Any], sentences: int, *, discard: bool
) -> Iterator[FileParts]:
    """Yield the parts of OUTPUT, as `folder_of_parts` does; remove them if the body succeeds."""
    folder = folder_of(output)
    output.parent.stat()  # a folder that is missing is not made
    with folder_of_parts(folder, run, {".": sentences}, _ENDING, discard=discard):
        parts = FileParts(folder)
        parts.read()
        yield parts
        _remove_numbered(folder, _ENDING, range(len(parts.lengths)))
        (folder / MANIFEST).unlink(missing_ok=True)
        _remove_leavings(folder, ["."])
        with suppress(OSError):  # somebody has put a file there
            folder.rmdir()


@contextmanager
def folder_of_parts(
    folder: Path, run: Mapping[str, Any], parts: Mapping[str, int], ending: str, *, discard: bool
) -> Iterator[None]:
    """Hold a folder of the parts of a run, which an earlier process of the same run may have begun.

    `parts` is the number of parts of each file, at most; `ending` is that of their names. `discard`
    removes the parts of another run, and no other file.

    Raises:
        FileError: the folder holds files of somebody else, another process writes to it, or it
            belongs to another run and is not discarded.
        OSError: it cannot be made.
    """
    path = folder / MANIFEST
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file, expected a folder of parts; move it")
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
            if discard and found["run"] != dict(run):
                _remove_parts(folder, found)
                is_torn = True
            else:
                _refuse_other_run(folder, found["run"], run)
        if is_torn:
            _rewrite(file, wanted)
        _remove_leavings(folder, parts)
        yield
        if path.exists():
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
        _remove_numbered(folder / file, manifest["ending"], range(count))


def _remove_numbered(folder: Path, ending: str, numbers: range) -> None:
    """Remove the parts in a folder whose numbers are among `numbers`."""
    for path in folder.glob(f"[0-9]*{ending}"):
        number = path.name.removesuffix(ending)
        if number.isdecimal() and int(number) in numbers:
            path.unlink()


def _remove_leavings(folder: Path, files: Iterable[str]) -> None:
    """Remove the temporary files of parts that a process had begun before it was killed."""
    for file in files:
        for path in (folder / file).glob(f"{atomic_files.TEMPORARY}*"):
            if path.is_dir():  # a format of several files
                shutil.rmtree(path, ignore_errors=True)
            else:
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
            raise FileError(f"{path} was begun with {difference}; --force starts over")


def _lock(file: BinaryIO, path: Path) -> None:
    """Hold a file until it is closed. Raises FileError if another process writes `path`."""
    try:
        lock_now(file)
    except BlockingIOError:
        raise FileError(f"{path} is being written by another process") from None
