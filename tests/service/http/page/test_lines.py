"""The curl and the Python lines of the page run, and give the numbers of the page."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.page import WordPage

ROOT = Path(__file__).parents[4]
TEXTS = ("We sat on the river's bank.", 'He said "bank" \\ twice: bank.', "Ein Ufer: die Bänke")

pytestmark = pytest.mark.long


def run(command: list[str], **environment: str) -> str:
    paths = os.pathsep.join(str(ROOT / name) for name in ("model", "service", "client"))
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def curl(page: WordPage, block: str, **environment: str) -> Any:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: its lines are not run")
    return json.loads(run(["bash", "-c", page.text(block)], **environment))


def printed(page: WordPage, **environment: str) -> list[tuple[float, str]]:
    """Run the Python lines; return the cosine and the token of each line."""
    text = run([sys.executable, "-c", page.text("#lines-python")], **environment)
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    return [(float(cosine), token) for cosine, token in lines]


def test_the_python_lines_print_the_numbers_of_the_page(page: WordPage) -> None:
    page.set("#tokenizer", "whitespace")
    page.compare(*TEXTS)
    page.select("mix")
    page.set("#weight-0-exact", "-0.7")
    page.set("#gamma-exact", "1.3")

    lines = printed(page)

    assert [token for _, token in lines] == " ".join(TEXTS).split()
    np.testing.assert_allclose([cosine for cosine, _ in lines], page.similarities(), atol=0.0101)


@pytest.mark.parametrize("selection", ["1", "task"])
def test_curl_gives_the_vector_whose_beginning_is_shown(page: WordPage, selection: str) -> None:
    page.compare(*TEXTS)
    page.select("mix" if selection == "task" else selection)
    if selection == "task":
        page.set("#task", "ner")
    words = page.text(".lines:has(#lines-embed) .hint:not([role])")
    where, _, shown = words.partition(" begins ")

    found = curl(page, "#lines-embed")["embeddings"]
    for index in where.partition(",")[0].removeprefix("embeddings[").removesuffix("]").split("]["):
        found = found[int(index)]
    numbers = [float(number) for number in shown.removesuffix(", …").split(", ")]
    np.testing.assert_allclose(found[: len(numbers)], numbers, rtol=1e-3, atol=1e-4)


def test_a_button_copies_the_lines_or_selects_them(page: WordPage) -> None:
    page.chromium.allow("clipboardReadWrite", "clipboardSanitizedWrite")
    page.unfold()
    said = "document.querySelector('#lines [role=status]').textContent"
    page.chromium.run("document.querySelector('[aria-label^=\"Copy Python\"]').focus()")
    page.chromium.press("Enter")
    page.chromium.wait_for(said)
    assert page.chromium.run(said) == "Copied."
    copied = page.chromium.run("navigator.clipboard.readText()")
    assert copied == page.chromium.run("document.querySelector('#lines-python').textContent")

    page.chromium.run(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})"
    )
    page.click("[aria-label^='Copy Python']")
    page.chromium.wait_for(f"{said}.startsWith('Selected')")
    assert page.chromium.run("getSelection().toString()").startswith("import numpy")
