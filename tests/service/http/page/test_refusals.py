"""The page when the server refuses: it says why in words, and asks for a key."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.support.browser import Page
from tests.support.gated_server import close_gate, gated, open_gate
from tests.support.servers import SMALL, running
from tests.support.word_page import WordPage

KEY = "open-sesame"


def test_a_limit_is_named_and_a_smaller_text_helps(chromium: Page, tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL, max_request_sentences=3, max_sentence_tokens=8) as server:
        page = WordPage(chromium, server.url)
        page.open()
        assert page.is_shown("#refusal")
        assert not page.is_shown("#results")
        assert "at most 3" in page.text("#refusal")
        assert "the reason is below" in page.text("#status")
        role = page.chromium.run("document.querySelector('#refusal').getAttribute('role')")
        assert role == "alert"

        page.compare("The bank.", "A bank of the river that is very long indeed.")
        assert "8" in page.text("#refusal")
        page.compare("The bank.", "A bank.")
        assert not page.is_shown("#refusal")
        assert page.is_shown("#results")


def test_a_text_for_which_the_page_is_too_small(page: WordPage) -> None:
    page.compare("bank " * 401)

    assert "401 tokens; the page compares 400 at most" in page.text("#refusal")
    assert not page.is_shown("#refusal button")  # the same text is as long again
    before = len(page.requests("/embed"))
    page.compare("bank " * 2_001)
    assert "10,004 characters; the page compares 8,000 at most" in page.text("#refusal")
    assert len(page.requests("/embed")) == before


def test_a_full_queue_says_when_to_try_again(chromium: Page, tmp_path: Path) -> None:
    limits = {"max_sentence_tokens": 10, "max_batch_tokens": 12, "max_queue_tokens": 60}
    bulk = {"sentences": [[f"w{number}"] for number in range(20)]}
    with (
        gated(tmp_path, **limits, request_timeout_seconds=600) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        page = WordPage(chromium, server.url)
        close_gate(server)
        held = pool.submit(httpx.post, server.url + "/embed", json=bulk, timeout=600)
        try:
            server.until(lambda: server.metric("elmo_answer_bytes") > 0)
            page.open()
            assert page.is_shown("#refusal")
            assert "Try again in" in page.text("#refusal")
            assert "queue" in page.text("#refusal")
        finally:
            open_gate(server)
        assert held.result().status_code == 200


def test_a_page_that_is_opened_while_the_model_is_loaded_begins_by_itself(
    chromium: Page, tmp_path: Path
) -> None:
    with running(tmp_path, model="english", until_ready=False) as server:
        chromium.open(server.url + "/")
        page = WordPage(chromium, server.url)
        assert not page.is_shown("#refusal")  # to wait is no alarm
        chromium.wait_for("document.querySelector('#results').getClientRects().length > 0")

        page.wait()
        assert not page.is_shown("#refusal")
        assert page.texts("#card dd")[0] == "english"


def test_a_server_that_is_gone(chromium: Page, tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL) as server:
        page = WordPage(chromium, server.url)
        page.open()
        assert not page.is_shown("#refusal")
    page.example("bank")

    assert "The server cannot be reached" in page.text("#refusal")
    assert page.text("#status") == "There are no vectors; the reason is below."
    assert not page.is_shown("#results")  # those of another text
    assert page.texts("[aria-pressed=true]") == []
    assert page.is_shown("#refusal button")


def test_a_key_is_asked_for_and_kept_in_memory_alone(chromium: Page, tmp_path: Path) -> None:
    with running(tmp_path, model=SMALL, api_keys=KEY) as server:
        page = WordPage(chromium, server.url)
        chromium.open(server.url + "/")
        chromium.wait_for("document.querySelector('#key-dialog').open")
        assert "This server asks for a key." in page.text("#key-reason")
        assert chromium.run("document.activeElement.id") == "key"

        chromium.write("wrong")
        chromium.press("Enter")
        chromium.wait_for("document.querySelector('#key-reason').textContent.includes('did not')")
        assert page.text("#key-reason") == "The server did not accept that key."
        chromium.wait_for("document.querySelector('#key-dialog').open")
        chromium.write(KEY)
        chromium.press("Enter")
        page.wait()

        assert page.is_shown("#results")
        assert not page.is_shown("#key-dialog")
        assert KEY not in chromium.run("document.documentElement.outerHTML")
        assert chromium.run("document.querySelector('#key').value") == ""
        assert '"Authorization: Bearer $ELMO_API_KEY"' in page.text("#lines-embed")
        assert chromium.run("localStorage.length + sessionStorage.length") == 0
        assert chromium.run("document.cookie") == ""
        assert chromium.run("indexedDB.databases().then((found) => found.length)") == 0
        urls = [each["request"]["url"] for each in chromium.events("Network.requestWillBeSent")]
        assert not any(KEY in url for url in urls)

        chromium.open(server.url + "/")  # it is forgotten
        chromium.wait_for("document.querySelector('#key-dialog').open")
        chromium.press("Escape")
        page.wait()
        assert "This server needs one of its API keys." in page.text("#refusal")
        page.chromium.run("document.querySelector('#refusal button').click()")
        chromium.wait_for("document.querySelector('#key-dialog').open")
