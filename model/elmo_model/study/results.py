"""Results of the study, a JSON file a part: an interrupted study continues with the next part."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elmo_model.atomic_files import write_bytes
from elmo_model.study.evaluation_sets import StudyError

Part = dict[str, Any]


class Results:
    """The results in a folder, all of one model and the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        self._settings = json.loads(json.dumps(settings))
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> Part | None:
        """Return a part, None where it is missing. Raises StudyError for one of other settings."""
        path = self._folder / f"{name}.json"
        try:
            found: Part = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StudyError(f"{path}: is not JSON: {error}") from error
        if found.get("settings") != self._settings:
            raise StudyError(
                f"{path}: is of the settings {found.get('settings')}, and these are "
                f"{self._settings}; name another folder"
            )
        return found

    def ensure(self, name: str, make: Callable[[], Part]) -> Part:
        """Return a part; make and write it where it is missing, with the seconds that it took."""
        if (found := self.get(name)) is not None:
            return found
        started = time.monotonic()
        made = {"settings": self._settings, **make(), "seconds": time.monotonic() - started}
        write_bytes(self._folder / f"{name}.json", json.dumps(made, indent=1).encode() + b"\n")
        return made
