"""The page in use: examples, numbers, pointing, sliders, the keyboard, tokenizers, models."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.browser import Page
from tests.support.command_line import index_of
from tests.support.page import Layers, WordPage
from tests.support.servers import SMALL, Running, running

pytestmark = pytest.mark.long

POSTS = "POST /embed"
OPENING_BYTES = 255_000
HALF = 0.005 + 1e-5
"""Half of the last digit of a cosine, and what another batch may change of float32 vectors."""


def test_the_page_opens_with_an_example_and_asks_its_own_server_alone(page: WordPage) -> None:
    received = page.chromium.events("Network.loadingFinished")
    assert sum(each["encodedDataLength"] for each in received) <= OPENING_BYTES
    assert page.texts("[aria-pressed=true]") == ["lead"]
    assert page.texts("#tokens .word")[page.reference()] == "lead"
    assert "28 tokens in 4 sentences, cut by the tokenizer ptb" in page.text("#status")
    for part in ("english", "7,786,832", "512", "ptb (language en)", "max_request_sentences"):
        assert part in page.text("#card")

    page.select("2")
    uses = zip(page.texts("#tokens .word"), page.similarities(), strict=True)
    metal, *others = (cosine for word, cosine in uses if word == "lead" and cosine < 1)
    first, second = others
    assert metal > max(others) + 0.1
    assert (
        page.text("#finding")
        == f"lead, the metal: {metal:.2f}; to lead: {first:.2f} and {second:.2f}"
    )

    page.example("play")
    sent = page.chromium.events("Network.requestWillBeSent")
    assert {each["request"]["url"].startswith(page.url + "/") for each in sent} == {True}


def test_the_numbers_are_those_that_anybody_computes(page: WordPage) -> None:
    texts = ("We sat on the river bank.", "The bank doesn't lend.", "A bank of fog")
    page.compare(*texts)
    page.select("mix")
    page.set("#weight-1", 2)
    page.set("#gamma-exact", "1.5")
    layers, reference = Layers.of(page.url, *texts), page.reference()

    mixture = np.exp([0, 2, 0]) / np.exp([0, 2, 0]).sum()
    columns = [*np.eye(3).tolist(), [1 / 3] * 3, list(1.5 * mixture)]
    expected = np.array([layers.cosines(column, reference) for column in columns]).T
    assert page.texts("#tokens .word") == layers.words
    np.testing.assert_allclose(page.similarities(), expected[:, -1], atol=HALF)
    rows = page.texts("#layers tbody strong")
    others = [i for i in range(len(layers.words)) if i != reference]
    others.sort(key=lambda i: (layers.words[i] != "bank", -expected[i, -1]))
    assert rows == [layers.words[i] for i in others[: len(rows)]]
    np.testing.assert_allclose(page.table(), expected[others[: len(rows)]], atol=HALF)


def test_a_change_of_text_is_one_request_and_a_change_of_mixture_none(page: WordPage) -> None:
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
    page.set("#tokenizer", "characters")
    assert page.requests("/embed") == [POSTS] * 3
    assert page.requests("/info/centre") == ["GET /info/centre"]


def test_pointing_compares_for_as_long_as_it_lasts_and_a_click_for_good(page: WordPage) -> None:
    chosen = page.reference()
    page.chromium.point("#tokens .sentence:nth-child(3) .token:nth-child(5)")
    assert page.texts("#tokens .word")[page.reference()] == "army"
    assert "Compared with army in sentence 3." in page.text("#tokens .reference")
    assert "army in sentence 3" in page.text("#layers caption")
    page.chromium.point("h1")
    assert page.reference() == chosen

    page.chromium.point(".mark:nth-child(4) .target")
    page.chromium.run(
        "document.querySelector('.mark:nth-child(4)').dispatchEvent(new MouseEvent('click'))"
    )
    page.chromium.point("h1")
    assert page.reference() == 3
    assert page.chromium.run("document.querySelector('#tokens :checked').value") == "3"


def test_sliders_fields_and_tasks_move_together(page: WordPage) -> None:
    def value(selector: str) -> str:
        found: str = page.chromium.run(f"document.querySelector('{selector}').value")
        return found

    page.select("mix")
    before = page.similarities(), page.map()
    page.set("#weight-2", 4.5)
    assert value("#weight-2-exact") == "4.5"
    assert page.similarities() != before[0]
    page.set("#weight-2-exact", "0")
    assert value("#weight-2") == "0"
    page.set("#gamma", 2)
    for refused in ("", "1e9"):
        page.set("#gamma-exact", refused)
        assert value("#gamma-exact") == "2"
    assert page.similarities() == before[0]
    assert abs(page.map() - 2 * before[1]).max() < 1e-3

    assert page.chromium.run("document.querySelector('#task [value=normed]').disabled")
    page.set("#task", "ner")
    assert [value(f"#weight-{i}-exact") for i in range(3)] == ["0.5", "-1.25", "2"]
    assert '"task": "ner"' in page.text("#lines-embed")
    page.set("#weight-1", 0)
    assert value("#task") == ""
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
    tab_to(page, "#lines details:nth-child(2) summary")
    press("Enter")
    tab_to(page, "[aria-label^='Copy curl: the vectors']")

    page.chromium.run("document.querySelector('#text').focus()")
    page.chromium.run("document.querySelector('#text').select()")
    page.chromium.write("It rains.")
    press("Enter", control=True)
    page.wait()
    assert page.texts("#tokens .word") == ["It", "rains", "."]


def test_any_text_is_shown_as_text_and_another_script_is_named(page: WordPage) -> None:
    page.set("#tokenizer", "whitespace")
    for texts in (
        ["bank"],
        ["<b>&amp;</b>", "<script>x</script>"],
        ["\u05d1\u05e0\u05e7 \U0001f3e6"],
    ):
        page.compare(*texts)
        assert page.texts("#tokens .word") == " ".join(texts).split()

    page.compare("", "One bank.", "   ", "Two banks.", "")
    assert page.text("#warnings") == ""
    assert len(page.texts(".sentence")) == 2
    page.compare("  ", "")
    assert page.text("#status") == "Write a sentence first."

    page.compare("мы сидели на берегу реки")
    assert "script" in page.text("#sentences #warnings")
    page.compare("bank " * 401)
    assert page.is_shown("#refusal") and page.text("#warnings") == ""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of three models: one that cannot be loaded, `english`, and one with an index."""
    folder = tmp_path_factory.mktemp("several")
    models = f"gone={folder / 'nowhere'},english,golden={SMALL}"
    index = index_of(folder, SMALL, TEXT)
    with running(folder, models=models, tasks=folder / "tasks", index=index) as server:
        yield server


TEXT = ["A bank lends .", *(f"The bank number {number} <b>" for number in range(70))]


def test_one_of_several_models_is_picked_and_a_failed_one_is_passed_over(
    chromium: Page, several: Running
) -> None:
    page = WordPage(chromium, several.url)
    page.open()
    assert page.texts("#model-choice option") == ["gone (failed)", "english", "golden"]
    assert page.texts("#model-choice option:disabled") == ["gone (failed)"]
    assert page.text("#card dd") == "english"
    words = page.texts("#tokens .word")

    page.set("#model-choice", "golden")

    assert page.requests("/embed") == [POSTS] * 2
    assert page.text("#card dd") == "golden"
    assert '"model": "golden"' in page.text("#lines-embed")
    assert len(page.texts("#tokens .word")) == len(words)


GATED = """
window.answered = window.fetch;
window.held = [];
window.late = [];
window.fetch = (path, options) => {
  if (path !== 'info?model=golden') return window.answered(path, options);
  const gate = new Promise((resolve) => window.held.push(resolve));
  window.late.push(gate.then(() => window.answered(path, options)));
  return window.late.at(-1);
};
"""
"""Holds requests for the model `golden` until `window.held` are called."""

PICK = (
    "(() => {{ const field = document.querySelector('#model-choice'); field.value = '{}';"
    "field.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
)


@pytest.fixture
def gated(chromium: Page, several: Running) -> Iterator[WordPage]:
    """The page, where a model was picked whose description does not come before it is let."""
    page = WordPage(chromium, several.url)
    page.open()
    chromium.run(GATED)
    chromium.run(PICK.format("golden"))
    yield page
    assert all("503" in each.get("text", "") for each in page.faults())  # of the failed model


def let_go(page: WordPage) -> None:
    page.chromium.run(
        "(window.held.forEach((answer) => answer()), Promise.allSettled(window.late).then(() => 0))"
    )


def test_a_text_that_is_sent_while_a_model_is_opened_is_compared_by_that_model(
    gated: WordPage,
) -> None:
    gated.chromium.run("document.querySelector('#text').value = 'Two banks.'")
    gated.chromium.run("document.querySelector('#sentences [type=submit]').click()")
    assert not gated.is_shown("#results")
    assert gated.requests("/embed") == [POSTS]

    gated.chromium.wait_for("window.held.length > 1")
    let_go(gated)
    gated.chromium.wait_for("document.querySelector('#results').getClientRects().length > 0")

    assert "".join(gated.texts("#tokens .word")) == "Twobanks."
    assert gated.text("#card dd") == "golden"
    assert '"model": "golden"' in gated.text("#lines-embed")
    assert gated.chromium.run("document.querySelector('#model-choice').value") == "golden"
    assert gated.requests("/embed") == [POSTS] * 2


def test_the_late_answer_of_another_model_is_dropped(gated: WordPage) -> None:
    gated.chromium.wait_for("window.held.length > 0")
    gated.set("#model-choice", "english")
    let_go(gated)
    gated.compare("Two banks.")

    assert gated.text("#card dd") == "english"
    assert '"model": "english"' in gated.text("#lines-embed")


def test_the_uses_of_a_word_are_listed_with_their_lines(chromium: Page, several: Running) -> None:
    page = WordPage(chromium, several.url)
    page.open()
    assert not page.is_shown("#words")  # `english` has no index
    page.set("#model-choice", "golden")
    page.chromium.run("document.querySelector('#word').value = 'bank'")
    page.chromium.run("document.querySelector('#word-form').requestSubmit()")
    page.chromium.wait_for("document.querySelectorAll('#word-uses li').length === 50")
    assert page.text("#word-status").startswith("71 uses of “bank”")
    page.chromium.run("document.querySelector('#word-more').click()")
    page.chromium.wait_for("document.querySelectorAll('#word-uses li').length === 71")

    assert page.texts("#word-uses .cosine") == [str(line) for line in range(1, 72)]
    assert page.texts("#word-uses .use")[1] == "The bank number 0 <b>"
    assert not page.is_shown("#word-more")
