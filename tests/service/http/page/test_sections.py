"""Sections that are asked for by a button alone: "Nearest uses" and "Expected words"."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.support.browser import Page
from tests.support.page import WordPage
from tests.support.servers import SMALL, Running, running

ASKED = "POST /neighbours"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a cache folder of its own: the text of the uses is not embedded yet."""
    folder = tmp_path_factory.mktemp("uses")
    with running(folder, model=SMALL, tasks=folder / "tasks", cache=folder / "cache") as found:
        yield found


@pytest.fixture
def page(chromium: Page, server: Running) -> Iterator[WordPage]:
    chromium.resize(1280, 900)
    found = WordPage(chromium, server.url)
    found.open()
    yield found
    assert [each for each in found.faults() if "503" not in each.get("text", "")] == []


def ask(page: WordPage) -> None:
    page.chromium.run("document.querySelector('#uses-ask').click()")
    page.chromium.wait_for("document.querySelector('#uses strong')")


def shown(page: WordPage) -> list[tuple[float, str]]:
    """Return the cosine and the word of each use."""
    cosines = page.texts("#uses > :first-child .cosine")
    return list(zip(map(float, cosines), page.texts("#uses strong"), strict=True))


def test_while_the_text_is_embedded_the_page_says_so_and_asks_again(
    page: WordPage, server: Running
) -> None:
    assert page.requests("/neighbours") == []
    page.chromium.run("document.querySelector('#uses-ask').click()")
    page.chromium.wait_for(
        "(window.said = document.querySelector('#uses-status').textContent).includes('again in')"
    )
    said = page.chromium.run("window.said")
    assert "of 9,996 tokens are done" in said
    assert int(said.partition("again in ")[2].split()[0]) <= 5

    page.chromium.wait_for("document.querySelector('#uses strong')")
    assert len(shown(page)) == 10
    assert len(page.requests("/neighbours")) >= 2


def test_the_uses_are_those_of_the_route(page: WordPage, server: Running) -> None:
    server.until_embedded()
    page.select("mix")
    page.set("#weight-0", 1.5)
    ask(page)

    body = {"text": "The pipes are made of lead.", "token": 5, "mix": {"weights": [1.5, 0, 0]}}
    found = httpx.post(page.url + "/neighbours", json=body).raise_for_status().json()
    cosines, uses = zip(*shown(page), strict=True)
    assert list(uses) == [each["sentence"][each["token"]] for each in found["neighbours"]]
    np.testing.assert_allclose(
        cosines, [each["cosine"] for each in found["neighbours"]], atol=0.0051
    )
    others = [word for word in uses if not word.lower().startswith("lead")]
    assert page.texts("#uses .is-other strong") == others
    said = page.text("#uses-status")
    assert "9,996 tokens in the text that comes with the program" in said
    assert f"{len(others)} use{'' if len(others) == 1 else 's'} of other words" in said
    words = [each["word"] for each in found["static"]]
    assert page.texts("#uses > :last-child bdi") == words
    assert page.requests("/neighbours") == [ASKED]
    assert page.requests("/embed") == ["POST /embed"]


def test_nothing_is_asked_before_the_button_and_old_uses_keep_their_name(
    page: WordPage, server: Running
) -> None:
    server.until_embedded()
    ask(page)
    name = "Nearest to lead in sentence 1, layer 2"
    assert page.texts("#uses .hint")[0] == name

    page.select("1")
    page.click("#tokens .sentence:nth-child(3) .token:nth-child(5) input")
    assert page.requests("/neighbours") == [ASKED]
    assert page.text("#uses-ask") == "Find the nearest uses of army"
    assert page.texts("#uses .hint")[0] == name
    page.example("play")
    assert page.texts("#uses *") == []
    assert page.requests("/neighbours") == [ASKED]


def test_it_shows_the_bits_and_the_substitutes_of_the_server(
    chromium: Page, english: Running
) -> None:
    page, direction = WordPage(chromium, english.url), "forward"
    page.open()
    page.chromium.wait_for("!document.querySelector('#expected').hidden")
    page.chromium.run(f"document.querySelector('#expected-direction').value = '{direction}'")
    page.chromium.run("document.querySelector('#expected-ask').click()")
    page.chromium.wait_for("document.querySelector('#expected-words strong')")

    words = page.texts("#expected-words > :first-child bdi")
    bits = page.texts("#expected-words > :first-child .cosine")
    (chosen,) = page.texts("#expected-words strong")
    substitutes = page.texts("#expected-words > :last-child bdi")
    place = words.index(chosen)
    body = {"sentences": [words]}
    scores = httpx.post(page.url + "/score", json=body).raise_for_status().json()["scores"][0]
    assert [float(each) for each in bits] == pytest.approx(scores[direction], abs=0.051)
    asked = {**body, "positions": [[place]], "direction": direction}
    found = httpx.post(page.url + "/substitutes", json=asked).raise_for_status().json()
    assert substitutes == [each["word"] for each in found["substitutes"][0][0]]
