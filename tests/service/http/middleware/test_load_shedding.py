"""Refusals from the headers alone; `tests/service/http/test_load_shedding.py` has the rule."""

import pytest
from starlette.types import Message, Scope

from elmo_serve.errors import Overloaded
from elmo_serve.http.middleware.load_shedding import LoadShedding
from tests.support.asgi import Route, http_scope, respond


class Shedder:
    """Refuses every request that it is asked about, or none."""

    def __init__(self, error: Overloaded | None) -> None:
        self.error = error
        self.asked: list[Scope] = []

    def refusal(self, scope: Scope) -> Overloaded | None:
        self.asked.append(scope)
        return self.error


async def test_a_request_without_room_is_refused_before_its_body_is_received() -> None:
    async def receive() -> Message:
        raise AssertionError("a piece was received")

    scope, route = http_scope(), Route()
    error = Overloaded("full", retry_after=1)

    with pytest.raises(Overloaded) as refusal:
        await respond(LoadShedding(route, Shedder(error)), scope, receive)  # type: ignore[arg-type]

    assert refusal.value is error
    assert scope["state"]["is_shed"] is True  # the access log counts it with others
    assert not route.scopes


@pytest.mark.parametrize(
    "scope",
    [http_scope("/tasks/x", "PUT"), http_scope("/embed", "GET"), {"type": "lifespan"}],
)
async def test_only_requests_to_embed_are_asked_about(scope: Scope) -> None:
    shedder = Shedder(Overloaded("full", retry_after=1))

    response = await respond(LoadShedding(Route(), shedder), scope)  # type: ignore[arg-type]

    assert response["status"] == 200
    assert not shedder.asked


async def test_a_request_with_room_passes_as_it_is() -> None:
    scope, route = http_scope(), Route()

    await respond(LoadShedding(route, Shedder(None)), scope)  # type: ignore[arg-type]

    assert route.scopes == [scope]
    assert "is_shed" not in scope["state"]
