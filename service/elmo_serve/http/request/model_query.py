"""The query parameter that chooses a model."""

from typing import Annotated

from fastapi import Query
from pydantic.json_schema import SkipJsonSchema

Model = Annotated[
    str | SkipJsonSchema[None],  # generated clients read `anyOf` with null badly
    Query(description="A model of the server. Default: the first one."),
]
"""The name of a model as a parameter of a route; None for the first one."""
