"""The look of the page: small, of one host, on a phone, in the dark, accessible."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.word_page import WordPage

ROOT = Path(__file__).parents[4]
AXE = "axe-core@4.14.1"
OPENING_BYTES = 320_000  # of which 190,000 of vectors


def test_opening_costs_at_most_320_kb_and_one_request_of_vectors(page: WordPage) -> None:
    received = [
        each["encodedDataLength"] for each in page.chromium.events("Network.loadingFinished")
    ]

    assert len(received) > 20
    assert sum(received) <= OPENING_BYTES
    assert page.requests("/embed") == ["POST /embed"]


def test_no_other_host_is_asked(page: WordPage) -> None:
    for word in ("play", "lead"):
        page.example(word)
    page.select("mix")

    sent = page.chromium.events("Network.requestWillBeSent")
    assert {each["request"]["url"].startswith(page.url + "/") for each in sent} == {True}
    assert page.chromium.events("Network.webSocketCreated") == []


def test_the_document_names_no_other_host() -> None:
    for path in (ROOT / "service/elmo_serve/http/page/static").iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_is_wider_than_the_window(page: WordPage, width: int) -> None:
    page.chromium.resize(width, 700, is_phone=width < 700)
    page.compare("Donaudampfschifffahrtsgesellschaftskapitänswitwe lent " + "z" * 60, "A bank")
    page.select("mix")
    page.unfold()

    assert page.chromium.run("document.documentElement.scrollWidth") <= width
    outside = page.chromium.run(
        "[...document.querySelectorAll('main *')]"
        ".filter((each) => !each.closest('.scroll, svg, .unseen')"
        f" && each.getBoundingClientRect().right > {width} + 0.5)"
        ".map((each) => each.outerHTML.slice(0, 99))"
    )
    assert outside == []


def test_dark_is_dark(page: WordPage) -> None:
    def brightness(of: str) -> float:
        colour = page.chromium.run(f"getComputedStyle(document.body).{of}")
        return sum(float(part) for part in colour.strip("rgb()").split(","))

    assert brightness("backgroundColor") > brightness("color")
    page.chromium.prefer(color_scheme="dark", reduced_motion="reduce")
    assert brightness("backgroundColor") < brightness("color")


def test_sentences_from_right_to_left_run_so(page: WordPage) -> None:
    page.compare("جلسنا على ضفة النهر", "We sat")
    directions = [
        page.chromium.run(f"document.querySelectorAll('.tokens')[{sentence}].dir")
        for sentence in (0, 1)
    ]
    assert directions == ["rtl", "ltr"]


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


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(page: WordPage, axe: str, scheme: str, width: int) -> None:
    page.chromium.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.chromium.resize(width, 800, is_phone=width < 700)
    assert violations(page, axe) == []

    page.select("mix")
    page.compare("The bank " + "x" * 60, "A bank")
    page.unfold()
    assert page.is_shown("#warnings ul")
    assert violations(page, axe) == []
