"""The log of a run: one JSON object per line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo_model.files.atomic import write_bytes


class Log:
    """An append-only file. A run that continues from step `step` drops the lines of later steps."""

    def __init__(self, path: Path, step: int) -> None:
        kept = [line for line in read(path) if line["step"] <= step] if path.exists() else []
        text = "".join(json.dumps(line) + "\n" for line in kept)
        write_bytes(path, text.encode())
        self._path = path

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line; it is in the file when this returns."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without a last one that a crash cut off."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
