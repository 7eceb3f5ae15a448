"""A misspelt argument is refused with the names that there are."""

from typing import Any

import pytest

from elmo_client import AsyncClient, Client


@pytest.mark.parametrize("client_class", [Client, AsyncClient])
@pytest.mark.parametrize("method", ["embed", "stream", "embed_text", "stream_text", "tokenize"])
async def test_an_unknown_argument_is_a_type_error_with_the_known_ones(
    client_class: Any, method: str
) -> None:
    client = client_class("http://127.0.0.1:9")
    with pytest.raises(TypeError) as caught:
        getattr(client, method)([], layer="top")

    assert f"{method} has no argument 'layer'; it has " in str(caught.value)
    assert ("tokenizer" if method == "tokenize" else "layers, task, mix") in str(caught.value)
    await client.close() if client_class is AsyncClient else client.close()


def test_the_constructor_names_its_arguments_too() -> None:
    wrong: Any = {"key": "secret"}
    with pytest.raises(TypeError, match=r"^Client has no argument 'key'; it has url, api_key"):
        Client("http://127.0.0.1:9", **wrong)
