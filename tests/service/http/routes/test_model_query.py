"""The query parameter `model`: a plain string in the document, and the first model without it."""

from typing import Any

import pytest

from elmo_serve.http.app import create_app
from elmo_serve.http.state import assemble
from elmo_serve.settings import Settings


@pytest.mark.parametrize(
    ("path", "method"),
    [("/info", "get"), ("/tasks", "get"), ("/tasks/{name}", "put"), ("/tasks/{name}", "delete")],
)
def test_it_is_an_optional_string(path: str, method: str) -> None:
    document: dict[str, Any] = create_app(assemble(Settings())).openapi()

    parameters = document["paths"][path][method]["parameters"]

    (found,) = [each for each in parameters if each["name"] == "model"]
    assert (found["in"], found["required"]) == ("query", False)
    assert found["schema"]["type"] == "string"
    assert not {"anyOf", "default"} & found["schema"].keys()
