"""A plain route is documented as any other and runs its endpoint alone."""

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from elmo_serve.http.routes.common import PlainRoute

router = APIRouter(route_class=PlainRoute)


@router.post("/echo", summary="Send the body back", response_class=PlainTextResponse)
async def echo(request: Request) -> Response:
    if not (body := await request.body()):
        raise ValueError("no body")
    return PlainTextResponse(body, headers={"x-app": str(request.app.title)})


@pytest.fixture
def app() -> FastAPI:
    return FastAPI(title="test", routes=router.routes)


def client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def test_the_endpoint_reads_the_request_and_its_response_is_sent(app: FastAPI) -> None:
    async with client(app) as asking:
        answer = await asking.post("/echo", content=b"one two")

    assert (answer.status_code, answer.text) == (200, "one two")
    assert answer.headers["x-app"] == "test"


async def test_errors_of_the_endpoint_reach_the_layers_around_it(app: FastAPI) -> None:
    async with client(app) as asking:
        with pytest.raises(ValueError, match="no body"):
            await asking.post("/echo")


def test_the_route_is_documented(app: FastAPI) -> None:
    assert app.openapi()["paths"]["/echo"]["post"]["summary"] == "Send the body back"
