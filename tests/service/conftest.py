"""A text of a few lines, and a published model."""

from pathlib import Path

import pytest

from tests.support.embedding_runs import TEXT
from tests.support.servers import SMALL


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    return path


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder with the golden pair and nothing else."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (folder / name).write_bytes((SMALL / name).read_bytes())
    return folder
