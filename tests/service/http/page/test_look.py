"""The look of the page: on a phone, in the dark, in forced colours, by the rules of axe-core."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from elmo_serve.http.routes.page import FOLDER
from tests.support.word_page import WordPage

ROOT = Path(__file__).parents[4]
AXE = "axe-core@4.14.1"


def test_the_files_name_no_other_host() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path.name


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_wider_than_the_window_or_too_small_for_a_finger(
    page: WordPage, width: int
) -> None:
    page.chromium.resize(width, 700, is_phone=width < 700)
    page.compare("Donaudampfschifffahrtsgesellschaftskapitänswitwe lent " + "z" * 60, "A bank")
    page.select("mix")
    page.unfold()

    assert page.chromium.run("document.documentElement.scrollWidth") <= width
    assert (
        page.chromium.run(
            "[...document.querySelectorAll('main *')]"
            ".filter((each) => !each.closest('.scroll, svg, .unseen')"
            f" && each.getBoundingClientRect().right > {width} + 0.5)"
            ".map((each) => each.outerHTML.slice(0, 99))"
        )
        == []
    )
    assert (
        page.chromium.run(
            "[...document.querySelectorAll('button, select, .segment span, .token')]"
            ".filter((each) => { const box = each.getBoundingClientRect();"
            "return box.width > 0 && (box.width < 24 || box.height < 24); })"
            ".map((each) => each.outerHTML.slice(0, 99))"
        )
        == []
    )


@pytest.mark.long
def test_the_page_is_as_the_user_prefers(page: WordPage) -> None:
    def style(name: str, of: str) -> str:
        found: str = page.chromium.run(f"getComputedStyle(document.querySelector('{of}')).{name}")
        return found

    def brightness(name: str) -> float:
        return sum(float(part) for part in style(name, "body").strip("rgb()").split(","))

    assert brightness("backgroundColor") > brightness("color")
    assert style("transitionDuration", ".mark") in ("0s", "0.00001s")
    page.chromium.prefer(color_scheme="dark", reduced_motion="no-preference")
    assert brightness("backgroundColor") < brightness("color")
    assert style("transitionDuration", ".mark") == "0.45s"

    page.chromium.prefer(forced_colors="active")
    for chosen, other in (
        (".token.is-reference", ".token:not(.is-reference)"),
        (".segment input:checked + span", ".segment input:not(:checked) + span"),
        (".pills [aria-pressed=true]", ".pills [aria-pressed=false]"),
        ("thead th.is-shown", "thead th:not(.is-shown)"),
    ):
        assert [style("outlineStyle", each) for each in (chosen, other)] == ["solid", "none"]


@pytest.mark.long
def test_labels_of_the_map_leave_its_ring_free_and_results_are_above_the_fold(
    page: WordPage,
) -> None:
    page.example("bank")
    bottom = "document.querySelector('#finding').getBoundingClientRect().bottom + scrollY"
    assert page.chromium.run(bottom) <= 900
    for width in (1280, 320):
        page.chromium.resize(width, 900)
        for token in range(7):
            page.click(f"[name=token][value='{token}']")
            met = page.chromium.run(
                "(() => { const ring = document.querySelector('.mark.is-reference .target')"
                ".getBoundingClientRect();"
                "return [...document.querySelectorAll('.mark text')].filter((each) => {"
                "const label = each.getBoundingClientRect();"
                "return each.textContent !== '' &&"
                "ring.left < label.right && label.left < ring.right &&"
                "ring.top < label.bottom && label.top < ring.bottom;"
                "}).map((each) => each.textContent); })()"
            )
            assert met == [], token
        assert any(page.texts(".mark text"))


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

    page.compare("bank " * 401)
    assert page.is_shown("#refusal")
    assert violations(page, axe) == []
