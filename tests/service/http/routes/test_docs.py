"""/docs: Swagger UI with nothing from other hosts."""

import re
from urllib.parse import urljoin

import httpx
import pytest

from tests.support.servers import Running


def test_the_page_loads_nothing_from_other_hosts(
    client: httpx.Client,
) -> None:
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


@pytest.mark.parametrize("name", ["%2e%2e", "a%2f%2e%2e%2fcore.py", "x"])
def test_docs_serve_no_other_file(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/docs/{name}")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_opens_in_a_browser_without_a_key(narrow: Running) -> None:
    page = httpx.get(narrow.url + "/docs")
    document = httpx.get(narrow.url + "/openapi.json").json()

    assert page.status_code == 200
    # Swagger UI shows its "Authorize" button for documents with a security scheme.
    assert "ApiKey" in document["components"]["securitySchemes"]
