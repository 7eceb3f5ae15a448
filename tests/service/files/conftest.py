"""A text and the golden model."""

from pathlib import Path

import pytest

from elmo_model.checkpoints import load
from elmo_model.network.elmo import ElmoNetwork
from tests.support.embedding_runs import TEXT
from tests.support.servers import SMALL


@pytest.fixture(scope="package")
def elmo() -> ElmoNetwork:
    return load(SMALL)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in TEXT), encoding="utf-8")
    return path
