"""The manifest of a folder of parts: which run they belong to, and which of them are finished.

The first line of `manifest.jsonl` names the run. Each further line is a part that is complete on
the disk, written after it. A line that a killed process has not finished is cut off. A part counts
if its line is there and the file has the size that the line says; all others are written again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from elmo_serve.distributed.corpus import part_name
from elmo_serve.files.sentence import FileError

NAME: Final = "manifest.jsonl"

_VERSION: Final = 1

_COMPLETE: Final = {"complete": True}


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """One part on the disk: its path in the folder, its content and its size in bytes."""

    part: str
    sentences: int
    tokens: int
    size: int


class Manifest:
    """The manifest of an output folder, locked against other processes."""

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self._folder = folder
        self._file = file
        self.finished: dict[str, FinishedPart] = {}
        self.is_complete = False

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, run: Mapping[str, Any], parts: Mapping[str, int], *, discard: bool
    ) -> Iterator[Manifest]:
        """Continue where an earlier process of the same `run` ended, or begin.

        `parts` is the number of parts of each file. `discard` removes the parts of an earlier run.

        Raises:
            FileError: the folder holds files of somebody else, another process writes to it, it is
                complete, or it belongs to another run; the last two are removed with `discard`.
                Or a part would lie where the manifest lies, or the manifest is damaged, which
                `discard` mends unless the line that names the run is.
        """
        path = folder / NAME
        if any(Path(file).parts[0] == NAME for file in parts):
            raise FileError(f"the corpus has a file or folder {NAME}, the name of the manifest")
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() and any(folder.iterdir()):
            raise FileError(f"{folder} is not empty and has no {NAME}; name another folder")
        with path.open("a+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError(f"{folder} is being written by another process") from None
            manifest = cls(folder, file)
            manifest._begin({**run, "version": _VERSION}, parts, discard=discard)
            yield manifest

    def add(self, part: FinishedPart) -> None:
        """Record a part that is complete on the disk."""
        self._append(asdict(part))
        self.finished[part.part] = part

    def complete(self) -> None:
        """Record that every part is there."""
        self._append(_COMPLETE)
        self.is_complete = True

    def _begin(self, run: dict[str, Any], parts: Mapping[str, int], *, discard: bool) -> None:
        head, lines = self._read()
        if head is not None and discard:
            self._remove(head)
            head = None
        if head is None:
            self._file.truncate(0)
            self._append({"run": run, "parts": dict(parts)})
            return
        found = head["run"]
        for name in sorted(run.keys() | found.keys()):
            if run.get(name) != found.get(name):
                raise FileError(
                    f"{self._folder} was begun with {name} {found.get(name)!r}, and this is "
                    f"{run.get(name)!r}; --force starts over"
                )
        for number, line in enumerate(lines, 2):
            part = self._finished(number, line)
            if _size(self._folder / part.part) == part.size:
                self.finished[part.part] = part

    def _read(self) -> tuple[dict[str, Any] | None, list[bytes]]:
        """Return the first line and the others, without one that was not finished."""
        self._file.seek(0)
        text = self._file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        if not whole:
            return None, []
        first, *others = whole.splitlines()
        try:
            head = json.loads(first)
            if head["run"]["version"] != _VERSION:
                raise ValueError(f"version {head['run']['version']}")
        except (ValueError, KeyError, TypeError) as error:
            raise FileError(
                f"{self._folder / NAME} is no manifest of elmo embed: {error}"
            ) from None
        return head, others

    def _finished(self, number: int, line: bytes) -> FinishedPart:
        """Return the part of a line. Raises FileError for the last line of a complete folder."""
        try:
            members = json.loads(line)
            if members == _COMPLETE:
                raise FileError(f"{self._folder} is complete; --force replaces it")
            return FinishedPart(**members)
        except (ValueError, TypeError) as error:
            raise FileError(
                f"{self._folder / NAME} is damaged in line {number}; --force starts over"
            ) from error

    def _remove(self, head: dict[str, Any]) -> None:
        """Remove every file that the earlier run may have written, and no other."""
        suffix = head["run"]["suffix"]
        for file, count in head["parts"].items():
            for number in range(count):
                (self._folder / part_name(file, number, suffix)).unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
