"""What the tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import SMALL


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder with the golden pair and nothing else."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (folder / name).write_bytes((SMALL / name).read_bytes())
    return folder
