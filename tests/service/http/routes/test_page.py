"""The pages: GET / for browsers and for others, /docs, and their files and no other."""

import re
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


def test_the_root_needs_no_key_and_names_no_model(narrow: Running) -> None:
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


@pytest.mark.parametrize(
    "path",
    [
        *("/page/..%2ffiles.py", "/page/%2e%2e", "/page/%00", "/page/main.ts", "/page/."),
        f"/page/{'x' * 300}",
        *("/docs/%2e%2e", "/docs/a%2f%2e%2e%2fcore.py", "/docs/x"),
    ],
)
def test_no_other_file_is_served(client: httpx.Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_the_page_of_the_document_runs_its_own_scripts_alone(client: httpx.Client) -> None:
    """A browser runs it in tests/openai/test_browser.py."""
    response = client.get("/docs")

    policy = dict(
        each.split(" ", 1) for each in response.headers["content-security-policy"].split("; ")
    )
    assert re.fullmatch(r"'self' 'sha256-[A-Za-z0-9+/]{43}='", policy["script-src"])
    assert response.text.count("<script>") == 1


def test_docs_load_nothing_from_other_hosts(client: httpx.Client) -> None:
    page = client.get("/docs")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "'./openapi.json'" in page.text
    assert "://" not in page.text
    linked = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(linked) == 3
    kinds = set()
    for link in linked:
        answer = client.get(urljoin("/docs", link))
        assert answer.status_code == 200
        assert client.head(urljoin("/docs", link)).headers["content-length"] == str(
            len(answer.content)
        )
        kinds.add(answer.headers["content-type"].partition(";")[0])
    assert kinds == {"text/javascript", "text/css", "image/png"}
