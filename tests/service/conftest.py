"""A text of a few lines."""

from pathlib import Path

import pytest

from tests.support.embedding_runs import TEXT


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    return path
