"""The manifest of an index: the text and the model that it is of, and its parts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from elmo_model.files.atomic import write_bytes
from elmo_model.neighbours.text import IndexFolderError, PartFacts
from elmo_model.validation import parsed

FILE: Final = "index.json"
VERSION: Final = 2
"""Version of the layout of an index: one of another version is refused."""

_FORMAT: Final = "elmo-serve index of uses"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of an index. `layers` is L + 1, `dimension` 2P.

    `text` is the name of the text, `tokenizer` what its lines were split by. `words` has the files
    of the frequent words, once all parts are there.
    """

    text: str
    model: str
    revision: str
    layers: int
    dimension: int
    tokenizer: str
    parts: tuple[PartFacts, ...] = ()
    words: Mapping[str, int] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder. Raises IndexFolderError for a folder that is no index."""
        path = folder / FILE
        try:
            text = path.read_text(encoding="utf-8")
            facts = json.loads(text)
        except OSError as error:
            detail = f"{FILE} cannot be read: {error.strerror}"
            raise IndexFolderError(f"{folder} is no index of uses: {detail}") from error
        except (ValueError, RecursionError) as error:
            raise IndexFolderError(f"{path} is no JSON: {error}") from error
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise IndexFolderError(f"{folder} is no index of uses: {FILE} is of something else")
        version = facts.get("version")
        if version != VERSION:
            raise IndexFolderError(
                f"{folder} is an index of version {version}, expected {VERSION}: make it anew"
            )
        try:
            found = parsed(cls, text)
        except ValueError as error:
            raise IndexFolderError(f"{path} is damaged: {error}") from error
        if found.words is not None and not found.parts:
            raise IndexFolderError(f"{path} is damaged: it is finished and has no part")
        return found

    def write(self, folder: Path) -> None:
        """Write the manifest, whole or not at all. Raises OSError."""
        facts = {"format": _FORMAT, "version": VERSION, **asdict(self)}
        write_bytes(folder / FILE, (json.dumps(facts, indent=1) + "\n").encode())

    @property
    def tokens(self) -> int:
        """The tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def sentences(self) -> int:
        """The sentences of all parts."""
        return sum(part.sentences for part in self.parts)

    @property
    def known_words(self) -> int:
        """The words of all parts."""
        return sum(part.words for part in self.parts)
