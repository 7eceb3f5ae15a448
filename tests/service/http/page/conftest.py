"""A browser and the page of a server of the built-in English model."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.browser import Page, browser
from tests.support.servers import Running, running
from tests.support.word_page import WordPage

NER = {"weights": [0.5, -1.25, 2.0], "gamma": 1.5}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def english(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of `english` with a task, and one that only the server can compute."""
    folder = tmp_path_factory.mktemp("english")
    with running(folder, model="english", tasks=folder / "tasks") as server:
        for name, task in (("ner", NER), ("normed", NER | {"layer_norm": True})):
            httpx.put(f"{server.url}/tasks/{name}", json=task).raise_for_status()
        yield server


@pytest.fixture
def page(chromium: Page, english: Running) -> Iterator[WordPage]:
    """The page, opened anew in a window of 1280 x 900; it must log no error."""
    chromium.resize(1280, 900)
    chromium.prefer(color_scheme="light", reduced_motion="reduce")
    found = WordPage(chromium, english.url)
    found.open()
    yield found
    assert found.faults() == []
