"""Snapshots: everything a run needs to continue as if it had never stopped."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self
from zipfile import ZipFile

import torch
from torch import Tensor

from elmo_model.errors import shown
from elmo_model.files.atomic import replacing
from elmo_model.network.state import State
from elmo_model.training import TrainingError
from elmo_model.training.row_stream import Cursor

_VERSION = 1
_KEPT = 2  # snapshots in a folder: should the last one be damaged, the one before is there

_ARRAYS = ("places", "left")  # of a cursor: tensors in the file


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run after `step` steps: weights, optimiser, state of the rows and place in the text.

    `average` is the moving average of the weights, empty in a run without one. Dropout and sampled
    words follow from the seed and the number of the step, so they are not stored. `seconds` is the
    time spent on training so far.
    """

    step: int
    seconds: float
    weights: dict[str, Tensor]
    average: dict[str, Tensor]
    optimiser: dict[str, Any]
    state: State
    cursors: tuple[Cursor, ...]

    @property
    def model(self) -> dict[str, Tensor]:
        """The weights of the model to measure and export: the average, if there is one."""
        return self.average or self.weights

    def write(self, folder: Path) -> Path:
        """Write the snapshot to a new file, atomically, and delete all but the last two."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.step:09d}.pt"
        content = {
            "version": _VERSION,
            "step": self.step,
            "seconds": self.seconds,
            "weights": self.weights,
            "average": self.average,
            "optimiser": self.optimiser,
            "h": self.state.h,
            "c": self.state.c,
            "cursors": [
                asdict(cursor) | {name: torch.from_numpy(getattr(cursor, name)) for name in _ARRAYS}
                for cursor in self.cursors
            ],
        }
        with (
            replacing(path) as temporary,
            temporary.open("wb") as file,
        ):  # torch makes a RuntimeError of errors of its own file
            torch.save(content, file)
        for old in _files(folder)[:-_KEPT]:
            old.unlink()
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file. Raises TrainingError for a damaged file or another format, and OSError."""
        remedy = "delete it: the same command continues from the one before it, if there is one"
        with path.open("rb") as file:
            try:
                if (member := ZipFile(file).testzip()) is not None:  # torch checks no CRC
                    raise ValueError(member)
                file.seek(0)
                # weights_only unpickles nothing but tensors and plain values
                content = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:  # a pickle that is none raises errors of many kinds
                raise TrainingError(f"{path}: is damaged or no snapshot; {remedy}") from error
        version = content.get("version") if isinstance(content, dict) else None
        if version != _VERSION:
            raise TrainingError(f"{path}: version is {shown(version)}, expected {_VERSION}")
        try:
            return cls._of(content)
        except (KeyError, TypeError) as error:
            fault = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise TrainingError(f"{path}: is damaged or no snapshot: {fault}; {remedy}") from error

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        return cls(
            content["step"],
            content["seconds"],
            content["weights"],
            content["average"],
            content["optimiser"],
            State(content["h"], content["c"]),
            tuple(
                Cursor(**cursor | {name: cursor[name].numpy() for name in _ARRAYS})
                for cursor in content["cursors"]
            ),
        )


def step_of(path: Path) -> int:
    """Return the step after which a snapshot was written."""
    return int(path.stem)


def latest(folder: Path) -> Path | None:
    """Return the last snapshot of a folder, or None."""
    files = _files(folder)
    return files[-1] if files else None


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.pt"))
