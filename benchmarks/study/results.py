"""Results of the study, one JSON file per part: an interrupted study continues with the next."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.study.sets import StudyError
from elmo_model.files.atomic import write_bytes

Part = dict[str, Any]


class Results:
    """The results in a folder, all of one model and the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._settings = json.loads(json.dumps(settings))
        folder.mkdir(parents=True, exist_ok=True)

    def ensure(self, name: str, make: Callable[[], Part]) -> Part:
        """Return a part; make and write it where it is missing, with the seconds that it took.

        Raises StudyError for a part of other settings.
        """
        path = self._folder / f"{name}.json"
        if path.exists():
            found: Part = json.loads(path.read_text(encoding="utf-8"))
            if found["settings"] != self._settings:
                raise StudyError(
                    f"{path}: is of the settings {found['settings']}, and these are "
                    f"{self._settings}; name another folder"
                )
            return found
        print(name, file=sys.stderr, flush=True)
        started = time.monotonic()
        made = {"settings": self._settings, **make(), "seconds": time.monotonic() - started}
        write_bytes(path, json.dumps(made, indent=1).encode() + b"\n")
        return made
