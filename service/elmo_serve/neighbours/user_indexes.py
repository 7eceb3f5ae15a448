"""The indexes that `ELMO_INDEX` names, each for the models of its revision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.store import open_index
from elmo_model.neighbours.text import IndexFolderError
from elmo_serve.settings import SettingsError, variable


class UserIndexes:
    """Open indexes by the revision of the model that computed them."""

    def __init__(self, folders: Sequence[Path] = (), called: str = variable("index")) -> None:
        """Open the indexes in some folders; `called` is the user's name for the setting.

        Raises SettingsError for a folder that is no whole index, and for two of one model.
        """
        self._called = called
        self._indexes: dict[str, tuple[Path, NeighbourIndex]] = {}
        for folder in folders:
            try:
                index = open_index(folder)
            except IndexFolderError as error:
                raise SettingsError(_refusal(called, folder, str(error))) from None
            other, known = self._indexes.setdefault(index.info.revision, (folder, index))
            if known is not index:
                raise SettingsError(_refusal(called, folder, f"{other} is of the same model"))

    def of(self, revision: str) -> NeighbourIndex | None:
        """Return the index of a model with this revision, if there is one."""
        return self._indexes[revision][1] if revision in self._indexes else None

    def check(self, models: Mapping[str, str]) -> None:
        """Check that each index belongs to a model; `models` has the revision of each name.

        Raises SettingsError, which names the index and the models.
        """
        served = ", ".join(f"{name} is {revision}" for name, revision in models.items())
        for revision, (folder, index) in self._indexes.items():
            if revision not in models.values():
                fault = f"it is of the model {index.info.model}, revision {revision}; {served}"
                raise SettingsError(_refusal(self._called, folder, fault))


NO_INDEXES: Final = UserIndexes()


def _refusal(called: str, folder: Path, fault: str) -> str:
    return (
        f"{called}={str(folder)!r} is not allowed: {fault}; allowed: a folder that "
        "`elmo index` has written for a model that is served"
    )
