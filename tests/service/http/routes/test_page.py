"""GET /page/NAME: the files of the page and no other."""

import httpx
import pytest

from tests.support.servers import Running


@pytest.mark.parametrize("name", ["..%2ffiles.py", "%2e%2e", "%00", "main.ts", "x" * 300, "."])
def test_no_other_file_is_served(client: httpx.Client, name: str) -> None:
    response = client.get(f"/page/{name}")

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_head_has_the_headers_of_get(client: httpx.Client) -> None:
    found, head = client.get("/page/main.js"), client.head("/page/main.js")

    assert head.status_code == 200
    assert head.content == b""
    for name in ("content-encoding", "content-length", "content-type", "etag"):
        assert head.headers[name] == found.headers[name]


def test_it_needs_no_key(narrow: Running) -> None:
    assert httpx.get(narrow.url + "/page/main.js").status_code == 200
