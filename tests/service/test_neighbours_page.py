"""docs/explore.md: the program of the nearest uses prints the table that the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import running
from tests.support.uses import until_embedded

PAGE = (Path(__file__).parents[2] / "docs" / "explore.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## The nearest uses of a word\n") :]


def block(language: str) -> str:
    """Return the first block of a language; the one without a language is the output."""
    blocks: list[tuple[str, str]] = re.findall(
        r"^```(\w*)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL
    )
    return next(text for found, text in blocks if found == language)


@pytest.mark.long
def test_the_program_prints_the_table_of_the_page(tmp_path: Path) -> None:
    with running(tmp_path, model="english") as server:
        until_embedded(server)
        run = subprocess.run(
            [sys.executable, "-c", block("python").replace("http://localhost:8000", server.url)],
            capture_output=True,
            text=True,
            check=False,
        )
        curl = subprocess.run(
            ["sh", "-euc", block("sh").replace("http://127.0.0.1:8000", server.url)],
            capture_output=True,
            text=True,
            check=False,
        )

    assert run.returncode == 0, run.stderr
    assert run.stdout == block("")
    assert curl.returncode == 0, curl.stderr
    assert '"neighbours":[{"sentence":[' in curl.stdout
