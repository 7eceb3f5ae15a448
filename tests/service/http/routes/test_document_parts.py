"""The part of the OpenAPI document that FastAPI cannot make for POST /embed."""

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.routes.common import json_request
from elmo_serve.http.routes.embed import RESPONSES
from elmo_serve.http.schemas.embed import EmbedRequest
from tests.support.errors import ERRORS


def test_every_encoding_is_documented_and_json_alone_has_a_schema() -> None:
    content = RESPONSES[200]["content"]

    assert list(content) == list(ENCODERS)
    for media_type, found in content.items():
        if media_type == "application/json":
            assert found["schema"] == {"$ref": "#/components/schemas/EmbedResponse"}
        else:
            assert found["schema"] == {"type": "string", "format": "binary"}


def test_every_status_is_one_of_the_errors_and_names_their_titles() -> None:
    for status, found in RESPONSES.items():
        if status == 200:
            continue
        titles = {error.title for error in ERRORS if error.status == status}
        assert set(found["description"].split("; ")) <= titles
        assert list(found["content"]) == ["application/problem+json"]


def test_only_errors_that_pass_say_when_to_come_again() -> None:
    later = {status for status, found in RESPONSES.items() if "Retry-After" in found["headers"]}

    assert later == {429, 503}


def test_the_request_is_json_with_an_optional_timeout() -> None:
    request = json_request(EmbedRequest)
    assert list(request["requestBody"]["content"]) == ["application/json"]
    (timeout,) = request["parameters"]
    assert (timeout["name"], timeout["required"]) == ("X-Request-Timeout", False)
