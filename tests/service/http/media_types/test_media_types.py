"""The media types: which one a client gets, and that each gives back what was put in."""

import json

import httpx
import numpy as np
import pytest

from elmo_serve.http.media_types import ENCODERS, safetensors
from tests.support.http_messages import arrays, body, decoded, embeddings

NPZ, SAFETENSORS, JSON = "application/x-npz", "application/vnd.safetensors", "application/json"


def got(client: httpx.Client, *accept: str) -> str:
    """Return the media type of an answer, or "406"."""
    headers = [("Accept", value) for value in accept] or [("Accept", "*/*")]
    response = client.post("/embed", json={"sentences": [["a"]]}, headers=headers)
    return response.headers["content-type"] if response.status_code == 200 else "406"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", JSON),
        ("", JSON),
        (",", JSON),
        ("application/*", JSON),
        ("text/html, */*;q=0.1", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON),
        (NPZ, NPZ),
        (SAFETENSORS, SAFETENSORS),
        ("Application/X-NPZ", NPZ),
        (f"{NPZ};q=0.5, {JSON};q=0.4", NPZ),
        (f"{JSON};q=0.5, {SAFETENSORS}", SAFETENSORS),
        (f"{NPZ};q=0.2,{JSON};Q=0.5", JSON),
        (f"{NPZ}, {JSON}", JSON),
        (f"{NPZ}, */*", NPZ),
        (f"*/*, {NPZ};q=0.9", JSON),
        (f"{JSON};q=0, */*", NPZ),
        (f"{JSON};q=0, {NPZ};q=0, */*;q=0.1", SAFETENSORS),
        (f"{JSON};q=0.000, {NPZ};q=0.001", NPZ),
        (f"{JSON}; charset=utf-8", JSON),
        (f"{NPZ}; version=1; q=0.5; ext=1", NPZ),
        (f"{NPZ} ,, {JSON} ; q=0.3", NPZ),
        (f'{JSON};profile="a,b";q=0.5', JSON),
        (f"{JSON};q=0", "406"),
        ("*/*;q=0", "406"),
        ("text/html", "406"),
        ("application/problem+json", "406"),
        ("application/octet-stream", "406"),
        ("garbage", "406"),
    ],
)
def test_accept_chooses(client: httpx.Client, accept: str, expected: str) -> None:
    assert got(client, accept) == expected


def test_several_accept_headers_are_one(client: httpx.Client) -> None:
    assert got(client, "text/html", NPZ) == NPZ
    assert got(client, f"{JSON};q=0.5", SAFETENSORS) == SAFETENSORS
    assert got(client, "text/html", "text/plain") == "406"


def test_no_accept_header_means_json(client: httpx.Client) -> None:
    request = client.build_request("POST", "/embed", json={"sentences": []})
    del request.headers["accept"]

    assert client.send(request).headers["content-type"] == JSON


@pytest.mark.parametrize("media_type", ENCODERS)
@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [(3, 2, 4)],
        [(3, 0, 4), (3, 5, 4), (3, 0, 4)],
        [(0, 4), (1, 4)],
        [(4,), (4,)],
        [(3, 4)],
        [(2, 4)] * 300,
        [(3, 9_000, 4), (3, 1, 4)],
    ],
)
def test_what_is_encoded_is_decoded(media_type: str, shapes: list[tuple[int, ...]]) -> None:
    vectors = arrays(*shapes)

    found = decoded(media_type, body(media_type, vectors))

    assert len(found) == len(vectors)
    for one, two in zip(found, vectors, strict=True):
        assert one.shape == two.shape
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("media_type", [NPZ, SAFETENSORS])
def test_vectors_are_not_copied_on_their_way(media_type: str) -> None:
    (vectors,) = arrays((3, 5, 4))

    pieces = ENCODERS[media_type].encode(embeddings([vectors]))

    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert any(np.shares_memory(np.frombuffer(view, np.uint8), vectors) for view in views)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_number_survives_json(dtype: str) -> None:
    bits = np.dtype({"float32": "uint32", "float16": "uint16"}[dtype])
    patterns = np.random.default_rng(1).integers(
        0, np.iinfo(bits).max, 100_000, bits, endpoint=True
    )
    numbers = patterns.view(dtype)
    numbers = numbers[np.isfinite(numbers)]
    edges = np.array([0.0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny, 1e-45], dtype)
    numbers = np.concatenate([numbers, edges])

    text = json.loads(body(JSON, [numbers[None]]))["embeddings"][0][0]

    np.testing.assert_array_equal(np.asarray(text, dtype).view(bits), numbers.view(bits))


@pytest.mark.parametrize("count", range(9))
def test_tensors_begin_at_a_multiple_of_8(count: int) -> None:
    data = body(SAFETENSORS, arrays(*[(3, 1, 4)] * count))

    assert int.from_bytes(data[:8], "little") % 8 == 0


def test_the_metadata_describe_the_model_and_the_layers() -> None:
    for layers, text in (((2, 0), "2,0"), (None, "")):
        head, *_ = safetensors.encode(embeddings(arrays((3, 2, 4)), layers))
        header = json.loads(bytes(head[8:]))

        assert header["__metadata__"] == {
            "model": "m",
            "revision": "r",
            "precision": "float32",
            "dimension": "4",
            "layers": text,
        }
        assert header["0"]["shape"] == [3, 2, 4]
