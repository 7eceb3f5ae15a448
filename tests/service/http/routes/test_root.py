"""GET /: the addresses of the other routes."""

from urllib.parse import urljoin

import httpx

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
