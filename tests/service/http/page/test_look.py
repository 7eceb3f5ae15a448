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
OPENING_BYTES = 250_000


def test_opening_costs_at_most_250_kb_and_one_request_of_vectors(page: WordPage) -> None:
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


def test_targets_are_large_enough_for_a_finger(page: WordPage) -> None:
    page.chromium.resize(320, 700, is_phone=True)
    page.select("mix")

    small = page.chromium.run(
        "[...document.querySelectorAll('button, select, .segment span, .token')].filter((each) =>"
        "{ const box = each.getBoundingClientRect();"
        "return box.width > 0 && (box.width < 24 || box.height < 24); })"
        ".map((each) => each.outerHTML.slice(0, 99))"
    )
    assert small == []


def test_dark_is_dark(page: WordPage) -> None:
    def brightness(of: str) -> float:
        colour = page.chromium.run(f"getComputedStyle(document.body).{of}")
        return sum(float(part) for part in colour.strip("rgb()").split(","))

    assert brightness("backgroundColor") > brightness("color")
    page.chromium.prefer(color_scheme="dark", reduced_motion="reduce")
    assert brightness("backgroundColor") < brightness("color")


def test_tokens_move_unless_the_user_prefers_that_nothing_does(page: WordPage) -> None:
    duration = "getComputedStyle(document.querySelector('.mark')).transitionDuration"
    assert page.chromium.run(duration) in ("0s", "0.00001s")
    page.chromium.prefer(color_scheme="light", reduced_motion="no-preference")
    assert page.chromium.run(duration) == "0.45s"


def test_sentences_have_shapes_and_similarity_has_numbers(page: WordPage) -> None:
    """No colour is needed to read the page."""
    shapes = page.chromium.run(
        "[...document.querySelectorAll('.sentence .badge path')].map((each) => each.outerHTML)"
    )
    assert len(shapes) == len(set(shapes)) == 4
    assert [text[-1] for text in page.texts(".sentence-name .unseen")] == [")"] * 4
    assert all(page.texts("#tokens .value"))


@pytest.mark.parametrize("width", [320, 1280])
def test_the_ring_on_the_map_is_whole_and_punctuation_has_no_label(
    page: WordPage, width: int
) -> None:
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
    page.click("[name=token][value='0']")
    assert "." not in page.texts(".mark text")


def test_what_is_chosen_is_outlined_where_colours_are_forced(page: WordPage) -> None:
    page.chromium.prefer(forced_colors="active")
    for chosen, other in (
        (".token.is-reference", ".token:not(.is-reference)"),
        (".segment input:checked + span", ".segment input:not(:checked) + span"),
        (".pills [aria-pressed=true]", ".pills [aria-pressed=false]"),
        ("thead th.is-shown", "thead th:not(.is-shown)"),
    ):
        styles = [
            page.chromium.run(f"getComputedStyle(document.querySelector('{each}')).outlineStyle")
            for each in (chosen, other)
        ]
        assert styles == ["solid", "none"], chosen
    focused = ".segment input:checked"
    page.chromium.run(f"document.querySelector('{focused}').focus({{ focusVisible: true }})")
    offset = page.chromium.run(
        f"getComputedStyle(document.querySelector('{focused} + span')).outlineOffset"
    )
    assert offset == "2px"  # that of the focus, around what is chosen


def test_the_first_numbers_are_above_the_fold(page: WordPage) -> None:
    page.chromium.resize(1280, 900)
    for word in ("lead", "bank"):
        page.example(word)
        bottom = "document.querySelector('#finding').getBoundingClientRect().bottom + scrollY"
        assert page.chromium.run(bottom) <= 900


def test_on_a_phone_the_rows_show_their_sentence(page: WordPage) -> None:
    page.chromium.resize(400, 800, is_phone=True)

    widths = page.chromium.run(
        "[...document.querySelectorAll('.layers .context')]"
        ".filter((each) => each.textContent.trim()).map((each) => each.offsetWidth)"
    )
    assert min(widths) > 1
    rows = page.texts("#layers tbody th > bdi")
    assert len(set(rows)) == len(rows)


def test_a_panel_is_no_taller_than_what_it_holds(page: WordPage) -> None:
    page.compare(*["The bank lent him money ."] * 20)
    tall, low = (
        page.chromium.run(f"document.querySelector('{each}').closest('.panel').offsetHeight")
        for each in ("#tokens", "#map")
    )
    assert low < tall


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_a_refusal(page: WordPage, axe: str, scheme: str) -> None:
    page.chromium.prefer(color_scheme=scheme, reduced_motion="reduce")
    page.compare("bank " * 399 + "bank bank")
    assert page.is_shown("#refusal")

    assert violations(page, axe) == []
