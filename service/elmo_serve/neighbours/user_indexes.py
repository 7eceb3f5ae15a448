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

    def __init__(
        self, indexes: Mapping[Path, NeighbourIndex], called: str = variable("index")
    ) -> None:
        self._called = called
        self._folders = {index.info.revision: folder for folder, index in indexes.items()}
        self._indexes = {index.info.revision: index for index in indexes.values()}

    @classmethod
    def open(cls, folders: Sequence[Path], called: str = variable("index")) -> UserIndexes:
        """Open the indexes in some folders; `called` is the user's name for the setting.

        Raises SettingsError for a folder that is no whole index, and for two of one model.
        """
        indexes: dict[Path, NeighbourIndex] = {}
        for folder in folders:
            try:
                index = open_index(folder)
            except IndexFolderError as error:
                raise SettingsError(_refusal(called, folder, str(error))) from None
            for other, known in indexes.items():
                if known.info.revision == index.info.revision:
                    raise SettingsError(_refusal(called, folder, f"{other} is of the same model"))
            indexes[folder] = index
        return cls(indexes, called)

    def of(self, revision: str) -> NeighbourIndex | None:
        """Return the index of a model with this revision, if there is one."""
        return self._indexes.get(revision)

    def check(self, models: Mapping[str, str]) -> None:
        """Check that each index belongs to a model; `models` has the revision of each name.

        Raises SettingsError, which names the index and the models.
        """
        served = ", ".join(f"{name} is {revision}" for name, revision in models.items())
        for revision, index in self._indexes.items():
            if revision not in models.values():
                fault = f"it is of the model {index.info.model}, revision {revision}; {served}"
                raise SettingsError(_refusal(self._called, self._folders[revision], fault))


NO_INDEXES: Final = UserIndexes({})


def _refusal(called: str, folder: Path, fault: str) -> str:
    return (
        f"{called}={str(folder)!r} is not allowed: {fault}; allowed: a folder that "
        "`elmo index` has written for a model that is served"
    )
