"""Pages in a browser: scripts of other origins, and the button of /docs that sends a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import KEY
from tests.support.browser import Page
from tests.support.download_server import serving_files
from tests.support.servers import SMALL, Running, running

pytestmark = pytest.mark.long

EMBED = """
fetch("%s/embed", {
  method: "POST",
  headers: {"Content-Type": "application/json", "Authorization": "Bearer %s"},
  body: JSON.stringify({sentences: [["one", "bank"]], layers: "top"}),
}).then(async (response) => [
  response.status,
  response.headers.get("X-Request-Id").length,
  (await response.json()),
])
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of a server of empty pages."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "index.html").write_text("<!doctype html><title>another origin</title>")
    with serving_files(folder) as address:
        yield address


@pytest.fixture(scope="module")
def allowing(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with a key that allows the other origin."""
    folder = tmp_path_factory.mktemp("allowing")
    with running(folder, model=SMALL, api_keys=KEY, cors_origins=origin) as server:
        yield server


def test_a_page_of_an_allowed_origin_alone_embeds(
    chromium: Page, origin: str, allowing: Running
) -> None:
    chromium.open(origin)
    status, id_length, body = chromium.run(EMBED % (allowing.url, KEY))
    assert (status, id_length) == (200, 32)
    assert len(body["embeddings"][0]) == 2
    status, id_length, body = chromium.run(EMBED % (allowing.url, "wrong"))
    assert (status, id_length) == (401, 32)
    assert "Authorization: Bearer KEY" in body["detail"]

    chromium.open(origin.replace("127.0.0.1", "localhost"))
    with pytest.raises(AssertionError, match="Failed to fetch"):
        chromium.run(EMBED % (allowing.url, KEY))


def test_the_authorize_button_of_the_docs_sends_the_key(chromium: Page, allowing: Running) -> None:
    operation = "#operations-Server-getInfo"
    chromium.open(allowing.url + "/docs")
    chromium.click(".btn.authorize")
    chromium.type(".auth-container input", KEY)
    chromium.click(".auth-btn-wrapper .authorize")
    chromium.click(".auth-btn-wrapper .btn-done")
    chromium.click(f"{operation} .opblock-summary-control")
    chromium.click(f"{operation} .try-out__btn")
    chromium.click(f"{operation} .execute")

    status = chromium.wait_for(
        f"document.querySelector('{operation} .live-responses-table .response-col_status')"
    )
    assert status
    assert chromium.run(
        f"[...document.querySelectorAll('{operation} .live-responses-table .response-col_status')]"
        ".map((cell) => cell.textContent.trim())"
    ) == ["Code", "200"]
