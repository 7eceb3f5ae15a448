"""The section "Expected words" of the page: surprisal and substitutes of the chosen token."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.browser import Page
from tests.support.language_models import write_bundle
from tests.support.servers import Running, running
from tests.support.word_page import WordPage


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("expected")
    model = write_bundle(folder / "bilm_tf")
    with running(folder, model=model, tasks=folder / "tasks", cache=folder / "cache") as found:
        yield found


@pytest.fixture
def page(chromium: Page, server: Running) -> Iterator[WordPage]:
    chromium.resize(1280, 900)
    found = WordPage(chromium, server.url)
    found.open()
    yield found
    assert found.faults() == []


@pytest.mark.parametrize("direction", ["both", "forward"])
def test_it_shows_the_bits_and_the_substitutes_of_the_server(
    page: WordPage, direction: str
) -> None:
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
