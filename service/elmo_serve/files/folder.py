"""Folders of parts, with which a killed run continues.

A part is renamed into place when it is whole: a part that is there is finished. `_manifest.json`,
written before the first part, names the run that they belong to. The parts of one file, OUTPUT, lie
in the folder OUTPUT.parts until they are joined.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from elmo_model.errors import counted
from elmo_model.files import atomic as atomic_files
from elmo_model.files.locks import lock_now
from elmo_serve.files.inputs import FileError

_VERSION: Final = 2

MANIFEST: Final = "_manifest.json"
"""Readers of a folder of Parquet leave out names that begin so: pyarrow, Spark, Dask."""


def folder_of(output: Path) -> Path:
    """Return the folder of the parts of a file."""
    return output.with_name(f"{output.name}.parts")


def part_name(file: str, number: int, ending: str) -> str:
    """Return the path of a part, relative to the folder of all parts."""
    return f"{file}/{number:06d}{ending}"


def parts_in(folder: Path) -> list[Path]:
    """Return the parts below a folder; none if no run has made it."""
    if not (folder / MANIFEST).is_file():
        return []
    return [path for path in folder.rglob("[0-9]*") if path.is_file()]


def kept(folder: Path) -> str:
    """Return a line for the user: what an interrupted run leaves in a folder of parts."""
    found = parts_in(folder)
    if not found:
        return "interrupted; nothing is kept"
    parts = counted(len(found), "finished part")
    return f"interrupted; {folder} keeps {parts}: the same command continues from there"


def remove_folder(folder: Path, parts: Iterable[Path]) -> None:
    """Remove the parts of one file, and their folder unless somebody has put a file there."""
    for path in parts:
        path.unlink(missing_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    _remove_leavings(folder, ["."])
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def folder_of_parts(
    folder: Path, run: Mapping[str, Any], parts: Mapping[str, int], ending: str, *, discard: bool
) -> Iterator[None]:
    """Hold a folder of the parts of a run, which an earlier process of the same run may have begun.

    `parts` is the number of parts of each file, at most; `ending` is that of their names. `discard`
    removes the parts of another run, and no other file. A folder without a part is as it was before
    in the end.

    Raises:
        FileError: the folder holds files of somebody else, another process writes to it, or it
            belongs to another run and is not discarded.
        OSError: it cannot be made.
    """
    path = folder / MANIFEST
    is_new = not folder.exists()
    if not is_new and not folder.is_dir():
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
        try:
            yield
        finally:
            _leave(folder, parts, is_new=is_new)


def _leave(folder: Path, files: Iterable[str], *, is_new: bool) -> None:
    """Remove temporary files, and a manifest without parts: nothing is kept then."""
    if not (folder / MANIFEST).exists():
        return
    _remove_leavings(folder, files)
    if [path.name for path in folder.iterdir()] == [MANIFEST]:
        (folder / MANIFEST).unlink()
        if is_new:
            folder.rmdir()


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
