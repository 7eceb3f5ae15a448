"""The page in use: examples, pointing, sliders, keys of the keyboard, tokenizers, models."""

from pathlib import Path

import pytest

from tests.support.browser import Page
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL, running
from tests.support.word_page import WordPage

POSTS = "POST /embed"


def by_meaning(page: WordPage, word: str) -> list[float]:
    """Return the cosines of the other uses of a word, in the order of the sentences."""
    words = page.texts("#tokens .word")
    cosines = page.similarities()
    return [
        cosines[i]
        for i, found in enumerate(words)
        if found.lower() == word and i != page.reference()
    ]


def test_the_page_opens_with_an_example(page: WordPage) -> None:
    assert page.texts("[aria-pressed=true]") == ["lead"]
    assert page.texts("#tokens .word")[page.reference()] == "lead"
    assert "28 tokens in 4 sentences, cut by the tokenizer ptb" in page.text("#status")
    assert page.requests("/embed") == [POSTS]


@pytest.mark.parametrize("word", ["lead", "play"])
def test_each_example_shows_two_meanings(page: WordPage, word: str) -> None:
    page.example(word)

    assert page.texts("[aria-pressed=true]") == [word]
    assert page.texts("#tokens .word")[page.reference()].lower() == word
    for layer in ("1", "2"):
        page.select(layer)
        same, *others = by_meaning(page, word)
        assert len(others) == 2
        assert same > max(others) + 0.1
    page.select("0")
    assert by_meaning(page, word) == [1.0, 1.0, 1.0]


def test_one_sentence_says_the_result(page: WordPage) -> None:
    page.example("lead")
    page.select("2")
    first, second, third = (f"{cosine:.2f}" for cosine in by_meaning(page, "lead"))
    assert page.text("#finding") == f"lead, the metal: {first}; to lead: {second} and {third}"

    page.compare("The bank lends.", "A bank of sand.", "My bank.")
    first, second = (f"{cosine:.2f}" for cosine in by_meaning(page, "bank"))
    assert page.text("#finding") == f"sentences 1 and 2: {first}; 1 and 3: {second}"
    page.compare("It rains.")
    assert not page.is_shown("#finding")


def test_a_change_of_text_is_one_request_and_a_change_of_mixture_none(page: WordPage) -> None:
    assert page.requests("/embed") == [POSTS]
    for selection in ("0", "1", "2", "average", "mix"):
        page.select(selection)
    page.set("#weight-0", 3)
    page.set("#gamma", 0.5)
    page.set("#task", "ner")
    page.chromium.point("#tokens .token:nth-child(3)")
    page.click("#tokens .token:nth-child(2) input")
    page.click("#sentences [type=submit]")  # the same text
    assert page.requests("/embed") == [POSTS]

    page.compare("One bank.", "Two banks.")
    assert page.requests("/embed") == [POSTS] * 2
    page.example("lead")
    assert page.requests("/embed") == [POSTS] * 3
    page.set("#tokenizer", "characters")
    assert page.requests("/embed") == [POSTS] * 4
    assert page.requests("/info/centre") == ["GET /info/centre"]


def test_pointing_compares_for_as_long_as_it_lasts(page: WordPage) -> None:
    chosen = page.reference()
    page.chromium.point("#tokens .sentence:nth-child(3) .token:nth-child(5)")
    assert page.texts("#tokens .word")[page.reference()] == "army"
    assert "Compared with army in sentence 3." in page.text("#tokens .reference")
    assert "army in sentence 3" in page.text("#layers caption")

    page.chromium.point("h1")
    assert page.reference() == chosen


def test_a_task_moves_the_sliders_and_a_slider_leaves_the_task(page: WordPage) -> None:
    page.select("mix")
    assert page.texts("#task option") == [
        "your own weights",
        "ner",
        "normed (with layer norm: only the server can compute it)",
    ]
    assert page.chromium.run("document.querySelector('#task [value=normed]').disabled")
    page.set("#task", "ner")
    assert page.chromium.run(
        "[0, 1, 2].map((i) => document.querySelector(`#weight-${i}-exact`).value)"
    ) == ["0.5", "-1.25", "2"]
    assert '"task": "ner"' in page.text("#lines-embed")

    page.set("#weight-1", 0)
    assert page.chromium.run("document.querySelector('#task').value") == ""
    assert '"task"' not in page.text("#lines-embed")


def tab_to(page: WordPage, selector: str) -> None:
    """Press Tab until an element has the focus; each one on the way must show that it has it."""
    for _ in range(60):
        page.chromium.press("Tab")
        outline = page.chromium.run(
            "(() => { const at = document.activeElement;"
            "const seen = [at, at.closest('.token'), at.nextElementSibling].filter(Boolean);"
            "return seen.some((e) => getComputedStyle(e).outlineStyle === 'solid'); })()"
        )
        at = page.chromium.run("document.activeElement.outerHTML.slice(0, 120)")
        assert outline, f"the focus cannot be seen on {at}"
        if page.chromium.run(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"Tab does not reach {selector}")


def test_everything_is_reached_with_the_keyboard_alone(page: WordPage) -> None:
    press = page.chromium.press
    tab_to(page, ".skip")
    tab_to(page, "#examples button:nth-child(3)")
    press("Enter")
    page.wait()
    assert page.texts("[aria-pressed=true]") == ["play"]

    tab_to(page, "#text")
    page.chromium.run("document.activeElement.select()")
    page.chromium.write("Cats sleep.\nDogs sleep well.")
    tab_to(page, "#sentences [type=submit]")
    press("Enter")
    page.wait()
    assert page.texts("#tokens .word") == ["Cats", "sleep", ".", "Dogs", "sleep", "well", "."]
    assert page.reference() == 1

    tab_to(page, "[name=token]")
    for key, reference in (("ArrowRight", 2), ("ArrowDown", 5), ("ArrowUp", 2), ("ArrowLeft", 1)):
        press(key)
        assert page.reference() == reference
    tab_to(page, "[name=selection]")
    press("ArrowLeft")
    assert page.chromium.run("document.querySelector('[name=selection]:checked').value") == "1"
    for _ in range(3):
        press("ArrowRight")
    assert page.is_shown("#mixture")
    tab_to(page, "#weight-1")
    before = page.map()
    for _ in range(10):
        press("ArrowRight")
    assert page.chromium.run("document.querySelector('#weight-1-exact').value") == "0.5"
    assert (page.map() != before).any()

    tab_to(page, "#map summary")
    press("Enter")
    assert page.is_shown("#map table")
    tab_to(page, "#lines details:nth-child(3) summary")
    press("Enter")
    tab_to(page, "[aria-label^='Copy curl: the vectors']")


def test_a_text_in_another_script_is_doubted_beside_the_input(page: WordPage) -> None:
    page.compare("мы сидели на берегу реки")
    assert "script" in page.text("#sentences #warnings")

    page.compare("bank " * 399 + "bank bank")
    assert page.is_shown("#refusal") and page.text("#warnings") == ""


@pytest.mark.parametrize(
    "texts",
    [
        ["bank"],
        ["bank bank"],
        ["<b>&amp;</b>", "<script>x</script>"],
        ["\u05d1\u05e0\u05e7 \U0001f3e6"],
    ],
)
def test_any_text_is_shown_as_text(page: WordPage, texts: list[str]) -> None:
    page.set("#tokenizer", "whitespace")
    page.compare(*texts)

    assert page.texts("#tokens .word") == " ".join(texts).split()


def test_one_of_several_models_is_picked(chromium: Page, tmp_path: Path) -> None:
    with running(tmp_path, models=f"english,golden={SMALL}", tasks=tmp_path / "tasks") as server:
        page = WordPage(chromium, server.url)
        page.open()
        assert page.is_shown("#model-choice")
        assert page.texts("#model-choice option") == ["english", "golden"]
        chromium.resize(1000, 900)
        button = "document.querySelector('#sentences [type=submit]').offsetTop"
        fields = page.chromium.run("document.querySelector('.fields').offsetHeight")
        top = "document.querySelector('.fields').offsetTop"
        assert page.chromium.run(f"{button} - {top}") < fields  # beside them, not below
        chromium.resize(1280, 900)
        words = page.texts("#tokens .word")

        page.set("#model-choice", "golden")

        assert page.requests("/embed") == [POSTS] * 2
        assert page.text("#card dd") == "golden"
        assert '"model": "golden"' in page.text("#lines-embed")
        assert len(page.texts("#tokens .word")) == len(words)
        assert page.faults() == []


def test_a_wide_model_embeds_nothing_before_the_user_asks(chromium: Page, tmp_path: Path) -> None:
    """30 tokens in 3 layers of width 600 would be 216 kB."""
    with running(tmp_path, model=write_pair(tmp_path / "wide", projection=300)) as server:
        page = WordPage(chromium, server.url)
        page.open()
        assert page.text("#status") == "Ready."
        assert page.requests("/embed") == []

        page.example("bank")

        assert page.requests("/embed") == [POSTS]
        assert page.faults() == []
