"""The wrapper around uvicorn's h11 protocol, and the interfaces of uvicorn that it stands on."""

import asyncio
import inspect
import tomllib
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_serve.http.connection.limits import (
    ConnectionFactory,
    ConnectionLimits,
    LimitedConnection,
    connection_of,
)

ROOT = Path(__file__).parents[3]


def test_uvicorn_makes_protocols_of_the_arguments_that_the_factory_takes() -> None:
    assert issubclass(H11Protocol, asyncio.Protocol)
    parameters = inspect.signature(H11Protocol).parameters
    assert list(parameters) == ["config", "server_state", "app_state", "_loop"]


class NoRefusals:
    is_active = False

    def response(self, data: bytes) -> bytes | None:
        raise AssertionError


async def test_the_factory_is_kept_as_it_is_by_the_configuration() -> None:
    factory = ConnectionFactory(ConnectionLimits(10, 1.0), lambda status: None, NoRefusals())

    async def app(scope: object, receive: object, send: object) -> None: ...

    config = uvicorn.Config(app, http=factory, log_config=None)  # type: ignore[arg-type]  # not a class
    config.load()

    assert config.http_protocol_class is factory  # type: ignore[comparison-overlap]  # likewise


def test_the_version_of_uvicorn_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (bound,) = [each for each in project["dependencies"] if each.startswith("uvicorn")]

    assert "<" in bound


def test_an_application_without_the_wrapper_has_a_connection_that_ignores_everything() -> None:
    connection = connection_of({"type": "http"})

    connection.request_started()
    connection.body_unread()
    connection.request_ended()
    assert not connection.is_surplus


async def test_one_turn_reads_a_bounded_part_of_a_connection() -> None:
    """Many clients that send large bodies would hold each turn of the event loop for a second."""
    factory = ConnectionFactory(ConnectionLimits(10, 1.0), lambda status: None, NoRefusals())
    connection = LimitedConnection(factory)

    assert len(connection.get_buffer(1 << 20)) == 1 << 16
