"""The layers around the routes: requests of other origins.

A browser makes them in tests/clients/test_browser.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.servers import SMALL, running

ORIGIN = "https://example.org"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-request-timeout",
}


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        running(
            tmp_path_factory.mktemp("allowing"),
            model=SMALL,
            worker="thread",
            api_keys="key",
            cors_origins=f"http://localhost:3000,{ORIGIN}/",
        ) as server,
        server.client() as client,
    ):
        yield client


def test_a_preflight_needs_no_key(allowing: httpx.Client) -> None:
    answer = allowing.options("/embed", headers=PREFLIGHT)

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert (
        answer.headers["access-control-allow-headers"]
        == PREFLIGHT["Access-Control-Request-Headers"]
    )
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert method in answer.headers["access-control-allow-methods"]


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [("/info", "key", 200), ("/info", "x", 401), ("/nowhere", "key", 404)],
)
def test_a_script_may_read_every_response(
    allowing: httpx.Client, path: str, key: str, status: int
) -> None:
    answer = allowing.get(path, headers={"Origin": ORIGIN, "Authorization": f"Bearer {key}"})

    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
    assert "Origin" in answer.headers["vary"]


def test_another_origin_is_not_allowed(allowing: httpx.Client) -> None:
    foreign = {**PREFLIGHT, "Origin": "https://example.com"}

    assert allowing.options("/embed", headers=foreign).status_code == 400
    assert "access-control-allow-origin" not in allowing.get("/health", headers=foreign).headers


def test_without_the_setting_there_are_no_such_headers(client: httpx.Client) -> None:
    assert client.options("/embed", headers=PREFLIGHT).status_code == 405
    answer = client.get("/info", headers={"Origin": ORIGIN})
    assert not [name for name in answer.headers if name.startswith("access-control")]
