"""The manifest of an index: what it is of, and the parts that are finished."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from elmo_model.atomic_files import write_bytes
from elmo_model.neighbours.errors import IndexFolderError

FILE: Final = "index.json"
VERSION: Final = 2
"""Version of the layout of an index: one of another version is refused."""

_FORMAT: Final = "elmo-serve index of uses"


@dataclass(frozen=True, slots=True)
class PartFacts:
    """The size of a part. `words` counts those that it has first, `lines` the lines of the text.

    `digest` is the SHA-256 of these lines, `files` has the size of each file in bytes.
    """

    tokens: int
    sentences: int
    words: int
    lines: int
    digest: str
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index is of. `layers` is L + 1, `dimension` 2P.

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
            facts = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            detail = f"{FILE} cannot be read: {error.strerror}"
            raise IndexFolderError(f"{folder} is no index of uses: {detail}") from error
        except (ValueError, RecursionError) as error:
            raise IndexFolderError(f"{path} is no JSON: {error}") from error
        if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
            raise IndexFolderError(f"{folder} is no index of uses: {FILE} is of something else")
        version = facts.pop("version", None)
        if version != VERSION:
            raise IndexFolderError(
                f"{folder} is an index of version {version}, expected {VERSION}: make it anew"
            )
        try:
            found = cls(**_with_parts(facts))
        except (TypeError, KeyError) as error:
            raise IndexFolderError(f"{path} is damaged: {error}") from error
        if (fault := found.fault()) is not None:
            raise IndexFolderError(f"{path} is damaged: {fault}")
        return found

    def fault(self) -> str | None:
        """Return what makes a manifest that was read useless; None for nothing."""
        numbers: dict[str, Any] = {"layers": self.layers, "dimension": self.dimension}
        tables: dict[str, Any] = {} if self.words is None else {"words": self.words}
        for number, part in enumerate(self.parts):
            own = {name: getattr(part, name) for name in ("tokens", "sentences", "words", "lines")}
            numbers |= {f"parts[{number}].{name}": value for name, value in own.items()}
            tables[f"parts[{number}].files"] = part.files
        for name, table in tables.items():
            if not isinstance(table, dict):
                return f"{name} is {table!r:.60}, expected the sizes of files"
            numbers |= {f"{name}[{file!r}]": size for file, size in table.items()}
        for name, value in numbers.items():
            if not isinstance(value, int):
                return f"{name} is {value!r:.60}, expected a number"
        if self.words is not None and not self.parts:
            return "it is finished and has no part"
        return None

    def write(self, folder: Path) -> None:
        """Write the manifest, whole or not at all. Raises OSError."""
        facts = {"format": _FORMAT, "version": VERSION, **asdict(self)}
        write_bytes(folder / FILE, (json.dumps(facts, indent=1) + "\n").encode())

    def with_part(self, part: PartFacts) -> "Manifest":
        """Return the manifest with one more part."""
        return replace(self, parts=(*self.parts, part))

    def with_words(self, files: Mapping[str, int]) -> "Manifest":
        """Return the manifest of the finished index."""
        return replace(self, words=files)

    @property
    def tokens(self) -> int:
        """The tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def known_words(self) -> int:
        """The words of all parts."""
        return sum(part.words for part in self.parts)


def part_folder(folder: Path, number: int) -> Path:
    """Return the folder of a part, which are numbered from 0."""
    return folder / f"part-{number:05}"


def _with_parts(facts: dict[str, Any]) -> dict[str, Any]:
    return {**facts, "parts": tuple(PartFacts(**part) for part in facts["parts"])}
