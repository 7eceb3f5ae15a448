"""docs/openapi.json is the document of the code."""

import sys
from pathlib import Path

from tests.support import fork_server

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_written_document_is_the_one_of_the_code() -> None:
    made = fork_server.run([sys.executable, "-m", "elmo_serve.http.app"])

    assert made.stdout == DOCUMENT.read_text(encoding="utf-8"), (
        "python -m elmo_serve.http.app > docs/openapi.json"
    )
