"""The page when the server refuses: it says why in words, and asks for a key."""

import json

import pytest

from tests.conftest import KEY
from tests.support.browser import Page
from tests.support.page import WordPage
from tests.support.servers import Running

pytestmark = pytest.mark.long


def test_whatever_answers_instead_of_vectors_is_said_and_tried_again(page: WordPage) -> None:
    problem = json.dumps({"title": "Full", "detail": "The queue is full."})
    answers = {
        "new Response('<p>Log in', {headers: {'Content-Type': 'text/html'}})": "A proxy answered",
        f"new Response({problem!r}, {{status: 503, headers: {{'Retry-After': '7'}}}})": "queue",
        "Promise.reject(new TypeError())": "The server cannot be reached",
    }
    page.chromium.run("window.answered = window.fetch")
    for answer, said in answers.items():
        page.chromium.run(f"window.fetch = async () => {answer}")
        page.example("bank")
        assert said in page.text("#refusal")
        assert ("Try again in 7 s" in page.text("#refusal")) == (said == "queue")
        assert page.text("#status") == "There are no vectors; the reason is below."
        role = page.chromium.run("document.querySelector('#refusal').getAttribute('role')")
        assert role == "alert"
        assert not page.is_shown("#results")  # those of another text

    page.chromium.run("window.fetch = window.answered")
    page.click("#refusal button")
    assert not page.is_shown("#refusal")
    assert page.is_shown("#results")


def test_a_key_is_asked_for_and_kept_in_memory_alone(chromium: Page, narrow: Running) -> None:
    page = WordPage(chromium, narrow.url)
    chromium.open(narrow.url + "/")
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

    assert "at most 3" in page.text("#refusal")  # the example has four sentences
    page.compare("The bank.")
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

    chromium.open(narrow.url + "/")  # it is forgotten
    chromium.wait_for("document.querySelector('#key-dialog').open")
    chromium.press("Escape")
    page.wait()
    assert "This server needs one of its API keys." in page.text("#refusal")
    page.chromium.run("document.querySelector('#refusal button').click()")
    chromium.wait_for("document.querySelector('#key-dialog').open")
