"""Text in POST /embed: the vectors of its tokens, with tokens, offsets and warnings, everywhere."""

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from elmo_serve.http.media_types import ENCODERS
from tests.support.http_messages import decoded

NPZ, SAFETENSORS, JSON = "application/x-npz", "application/vnd.safetensors", "application/json"
TEXT = ["The bank can't lend.", "", "Zürich 東京 👩\u200d👩\u200d👧!"]
TOKENS = [
    ["The", "bank", "ca", "n't", "lend", "."],
    [],
    ["Zürich", "東京", "👩\u200d👩\u200d👧", "!"],
]
OFFSETS = [
    [[0, 3], [4, 8], [9, 11], [11, 14], [15, 19], [19, 20]],
    [],
    [[0, 6], [7, 9], [10, 15], [15, 16]],
]


def post(client: httpx.Client, media_type: str = JSON, **body: Any) -> httpx.Response:
    response = client.post("/embed", json=body, headers={"Accept": media_type})
    assert response.status_code == 200, response.text
    return response


def carried(media_type: str, content: bytes) -> dict[str, Any]:
    """Return tokens and offsets as a media type carries them."""
    match media_type:
        case "application/json":
            body = json.loads(content)
            return {name: body[name] for name in ("tokens", "offsets")}
        case "application/x-npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                return {name: json.loads(file[name].item()) for name in ("tokens", "offsets")}
        case _:
            size = int.from_bytes(content[:8], "little")
            metadata = json.loads(content[8 : 8 + size])["__metadata__"]
            assert metadata["tokenizer"] == "ptb"
            safetensors.numpy.load(content)
            return {name: json.loads(metadata[name]) for name in ("tokens", "offsets")}


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_text_has_the_vectors_of_its_tokens(
    client: httpx.Client, media_type: str, pooling: str
) -> None:
    wanted: dict[str, Any] = {"layers": "average", "pooling": pooling}
    response = post(client, media_type, text=TEXT, tokenizer="ptb", **wanted)
    same = post(client, media_type, sentences=TOKENS, **wanted)

    found, expected = (decoded(media_type, each.content) for each in (response, same))
    assert len(found) == len(TEXT)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert carried(media_type, response.content) == {"tokens": TOKENS, "offsets": OFFSETS}


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize("text", [[], [""], ["one"] * 600])
def test_few_and_many_texts_are_carried(
    client: httpx.Client, media_type: str, text: list[str]
) -> None:
    response = post(client, media_type, text=text, tokenizer="ptb", layers="top", pooling="mean")

    assert len(decoded(media_type, response.content)) == len(text)
    tokens = [each.split() for each in text]
    offsets = [[[0, 3]] if each else [] for each in text]
    assert carried(media_type, response.content) == {"tokens": tokens, "offsets": offsets}
