"""The layers around the routes: requests of other origins, HEAD, and the way of a request.

A browser makes them in tests/openai/test_browser.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Final

import httpx
import pytest
from starlette.routing import Route

import elmo_serve
from elmo_serve.http.app import create_app
from elmo_serve.http.state import assemble
from elmo_serve.settings import Settings
from tests.support.in_process import in_process
from tests.support.servers import SMALL

MOST_FILES: Final = 26
"""Files of the service whose functions run for a request of one small sentence, over ASGI and with
a worker that is no process: a process adds two."""

ORIGIN = "https://example.org"
FOREIGN = "https://example.com"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-api-key,x-request-timeout",
}


def client_of(**settings: object) -> httpx.AsyncClient:
    """Return a client of an application without running processes."""
    app = create_app(assemble(Settings.model_validate({"model": str(SMALL), **settings})))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def allowing() -> httpx.AsyncClient:
    return client_of(api_keys="key", cors_origins=f"http://localhost:3000,{ORIGIN}/")


async def test_a_preflight_needs_no_key() -> None:
    async with allowing() as client:
        answer = await client.options("/embed", headers=PREFLIGHT)

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert (
        answer.headers["access-control-allow-headers"]
        == PREFLIGHT["Access-Control-Request-Headers"]
    )
    for method in ("GET", "HEAD", "POST"):
        assert method in answer.headers["access-control-allow-methods"]


@pytest.mark.parametrize(
    ("origin", "status"), [(ORIGIN, 200), ("https://default.example.org", 200), (FOREIGN, 400)]
)
async def test_a_page_of_a_public_site_may_ask_a_local_server(origin: str, status: int) -> None:
    """Chromium asks for the permission; browsers leave the default port out of an origin."""
    headers = {**PREFLIGHT, "Origin": origin, "Access-Control-Request-Private-Network": "true"}
    async with client_of(cors_origins=f"{ORIGIN},https://default.example.org:443") as client:
        answer = await client.options("/embed", headers=headers)

    assert answer.status_code == status
    if status == 200:
        assert answer.headers["access-control-allow-private-network"] == "true"
        assert answer.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [("/v1/models", "key", 200), ("/info", "x", 401), ("/nowhere", "key", 404)],
)
async def test_a_script_may_read_every_response(path: str, key: str, status: int) -> None:
    headers = {"Origin": ORIGIN, "Authorization": f"Bearer {key}"}
    async with allowing() as client:
        answer = await client.get(path, headers=headers)

    assert answer.status_code == status
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
    assert "Origin" in answer.headers["vary"]


async def test_another_origin_is_not_allowed() -> None:
    foreign = {**PREFLIGHT, "Origin": FOREIGN}
    async with allowing() as client:
        assert (await client.options("/embed", headers=foreign)).status_code == 400
        answer = await client.get("/health", headers=foreign)
        assert "access-control-allow-origin" not in answer.headers


async def test_without_the_setting_there_are_no_such_headers() -> None:
    async with client_of() as client:
        assert (await client.options("/embed", headers=PREFLIGHT)).status_code == 405
        answer = await client.get("/health/live", headers={"Origin": ORIGIN})
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "path",
    [
        "/tasks",
        "/info",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/openapi.json",
        "/page/main.js",
    ],
)
def test_head_answers_like_get_without_a_body(client: httpx.Client, path: str) -> None:
    got, headed = client.get(path), client.head(path)

    assert headed.status_code == got.status_code == 200
    assert headed.content == b""
    for name in ("content-type", "etag"):
        assert headed.headers.get(name) == got.headers.get(name)


def test_every_route_that_takes_get_takes_head() -> None:
    taken: dict[str, set[str]] = {"GET": set(), "HEAD": set()}
    for route in create_app(assemble(Settings(model=str(SMALL)))).routes:
        assert isinstance(route, Route)
        for method in (route.methods or set()) & taken.keys():
            taken[method].add(route.path)

    assert taken["GET"] and taken["GET"] <= taken["HEAD"]


async def test_a_small_request_passes_few_files() -> None:
    """Each file on its way is one more that a reader has to know."""
    root = Path(elmo_serve.__file__).parent
    found = set[str]()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":  # of a function, or a step of a coroutine
            found.add(frame.f_code.co_filename)

    body = {"sentences": [["The", "bank", "."]], "layers": "top", "pooling": "mean"}
    async with in_process() as serving:
        await serving.client.get("/health/live")  # the first request makes the layers
        sys.setprofile(note)
        try:
            response = await serving.client.post("/embed", json=body)
        finally:
            sys.setprofile(None)
    assert response.status_code == 200
    files = {str(Path(each).relative_to(root)) for each in found if each.startswith(f"{root}/")}
    # http/state.py trims memory by a timer, which may fire during any request; logs.py writes the
    # line of the request where another test has set up the log.
    assert len(files - {"http/state.py", "logs.py"}) <= MOST_FILES, " ".join(sorted(files))
