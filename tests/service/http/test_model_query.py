"""The query parameter `model` is an optional string without `null` in its schema."""

from typing import Any

from fastapi import FastAPI

from elmo_serve.http.model_query import Model


def test_the_schema_has_one_type_and_the_parameter_is_optional() -> None:
    app = FastAPI()

    @app.get("/")
    async def route(model: Model = None) -> None:
        """Do nothing."""

    document: dict[str, Any] = app.openapi()
    (parameter,) = document["paths"]["/"]["get"]["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("model", "query", False)
    assert parameter["schema"]["type"] == "string"
    assert "anyOf" not in parameter["schema"]
