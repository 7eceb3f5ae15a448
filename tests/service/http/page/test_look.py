"""The look of the page: on a phone and in the dark, by the rules of axe-core."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from elmo_serve.http.routes.page import FOLDER
from tests.support.page import WordPage

ROOT = Path(__file__).parents[4]
AXE = "axe-core@4.14.1"


def test_the_files_name_no_other_host() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, from npm into build/, which git ignores."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: axe-core does not check the page")
    folder = ROOT / "build" / "axe"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    package = script.with_name("package.json")
    wanted = AXE.partition("@")[2]
    if not package.is_file() or json.loads(package.read_text())["version"] != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--no-save", "--no-audit", "--no-fund", "--ignore-scripts")
        install = [npm, "install", "--prefix", str(folder), *options, AXE]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install {AXE}: {done.stderr[-400:]}")
    return script.read_text(encoding="utf-8")


def violations(page: WordPage, axe: str) -> list[Any]:
    page.chromium.inject(axe)
    found = page.chromium.run(
        "axe.run(document, {resultTypes: ['violations']}).then(({ violations }) =>"
        "violations.map(({ id, nodes }) => [id, nodes.map((each) =>"
        "[each.target, each.failureSummary])]))"
    )
    assert isinstance(found, list)
    return found


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])
def test_axe_finds_no_violation(page: WordPage, axe: str, scheme: str, width: int) -> None:
    page.chromium.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.chromium.resize(width, 800, is_phone=width < 700)
    assert violations(page, axe) == []

    page.select("mix")
    page.compare("The bank " + "x" * 60, "جلسنا على ضفة النهر")
    page.unfold()
    assert page.is_shown("#warnings ul")
    assert violations(page, axe) == []
    assert page.chromium.run("document.documentElement.scrollWidth") <= width
    red, *_ = re.findall(
        r"\d+", page.chromium.run("getComputedStyle(document.body).backgroundColor")
    )
    assert (int(red) > 127) == (scheme == "light")

    page.compare("bank " * 401)
    assert page.is_shown("#refusal")
    assert violations(page, axe) == []
