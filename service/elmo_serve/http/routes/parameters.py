"""Parameters that several routes have."""

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic.json_schema import SkipJsonSchema

from elmo_serve.http.state import Server


async def _server(request: Request) -> Server:  # FastAPI runs a plain function in a thread
    server: Server = request.app.state.server
    return server


TheServer = Annotated[Server, Depends(_server)]
"""The server as a parameter of a route."""

Model = Annotated[
    str | SkipJsonSchema[None],  # generated clients read `anyOf` with null badly
    Query(description="A model of the server. Default: the first one."),
]
"""The name of a model as a parameter of a route; None for the first one."""
