"""GET /: the page for browsers, the addresses of the other routes for everybody else."""

from urllib.parse import urljoin

import httpx
import pytest

from tests.support.servers import Running


def test_every_address_is_answered(client: httpx.Client) -> None:
    found = client.get("/").json()

    assert found.pop("name") == "elmo-serve"
    assert found.pop("version") == client.get("/info").json()["version"]
    assert {"docs", "openapi", "info", "metrics"} < set(found)
    for address in found.values():
        assert client.get(urljoin("/", address)).status_code == 200
    assert client.head("/").status_code == 200


def test_it_needs_no_key_and_names_no_model(narrow: Running) -> None:
    answer = httpx.get(narrow.url)

    assert answer.status_code == 200
    assert "small" not in answer.text


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html"),
        ("text/html", "text/html"),
        ("TEXT/HTML", "text/html"),
        ("application/json;q=0.5, text/html", "text/html"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("*/*", "application/json"),
        ("text/*", "application/json"),
        ("application/json", "application/json"),
        ("image/png", "application/json"),
        ("text/html, x", "application/json"),
        ("", "application/json"),
    ],
)
def test_the_page_is_for_clients_that_name_html(
    client: httpx.Client, accept: str, kind: str
) -> None:
    response = client.get("/", headers={"Accept": accept})

    assert response.status_code == 200
    assert response.headers["content-type"].partition(";")[0] == kind
    assert "Accept" in response.headers["vary"].split(", ")
