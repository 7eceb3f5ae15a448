"""The media types: which one a client gets, and that each gives back what was put in."""

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.media_types.encoder import Embeddings
from elmo_serve.http.media_types.response import send_chunks

NPZ, SAFETENSORS, JSON = "application/x-npz", "application/vnd.safetensors", "application/json"
ARROW = "application/vnd.apache.arrow.stream"


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
        (ARROW, ARROW),
        (f"{JSON};q=0.9, {ARROW}", ARROW),
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


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


def answer(vectors: Sequence[Any], layers: tuple[int, ...] | None = (0, 1, 2)) -> Embeddings:
    sentences = [b'["a", ""]'] * len(vectors)
    shape: tuple[int, ...] = (4,)
    dtype: Any = "float32"
    if vectors:  # of what tests put in, two axes are tokens and width
        shape = (*vectors[0].shape[:-2], -1, 4) if vectors[0].ndim > 1 else (4,)
        dtype = vectors[0].dtype.name
    return Embeddings("m", "r", 4, layers, 7, vectors, sentences, shape, dtype)


def body(media_type: str, vectors: Sequence[Any]) -> bytes:
    return b"".join(ENCODERS[media_type].encode(answer(vectors)))


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

    found = ENCODERS[media_type].decode(body(media_type, vectors))

    assert len(found) == len(vectors)
    for one, two in zip(found, vectors, strict=True):
        assert one.shape == two.shape
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("media_type", [NPZ, SAFETENSORS, ARROW])
def test_float16_stays_float16(media_type: str) -> None:
    vectors = arrays((3, 2, 4), (3, 0, 4), dtype="float16")

    for one, two in zip(
        ENCODERS[media_type].decode(body(media_type, vectors)), vectors, strict=True
    ):
        assert one.dtype == np.float16
        np.testing.assert_array_equal(one, two)


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


def test_npz_is_not_compressed_and_named_as_allennlp_named(client: httpx.Client) -> None:
    content = client.post(
        "/embed", json={"sentences": [["a"], [], ["b", "c"]]}, headers={"Accept": NPZ}
    ).content

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert [member.filename for member in archive.infolist()] == ["0.npy", "1.npy", "2.npy"]
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
    with np.load(io.BytesIO(content)) as file:
        assert list(file) == ["0", "1", "2"]
        assert [file[name].shape for name in file] == [(3, 1, 32), (3, 0, 32), (3, 2, 32)]


@pytest.mark.parametrize("media_type", [NPZ, SAFETENSORS, ARROW])
def test_vectors_are_not_copied_on_their_way(media_type: str) -> None:
    (vectors,) = arrays((3, 5, 4))

    pieces = ENCODERS[media_type].encode(answer([vectors]))

    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert any(np.shares_memory(np.frombuffer(view, np.uint8), vectors) for view in views)


def test_no_checksum_of_npz_is_just_long_enough_to_starve_the_event_loop() -> None:
    vectors = arrays((2, 1024), (30, 1024), (3, 40, 1024))

    pieces = ENCODERS[NPZ].encode(answer(vectors))

    sizes = [len(piece) for piece in pieces if isinstance(piece, memoryview)]
    assert sum(sizes) == sum(array.nbytes for array in vectors)
    assert all(size <= 5 * 1024 or size > 1 << 17 for size in sizes)


async def test_pieces_are_sent_in_order_and_in_sizes_worth_a_call() -> None:
    sizes = [1, 0, 70_000, 3, 65_536, 2, 3_000_000, *[100] * 5_000]
    pieces: list[bytes | memoryview] = [
        bytes([index % 251]) * size for index, size in enumerate(sizes)
    ]
    heads: list[Any] = []
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            heads.append(message["headers"])
        else:
            sent.append(bytes(message["body"]))

    expected = b"".join(pieces)
    await send_chunks(send, [(b"a", b"b")], pieces)

    assert heads == [[(b"a", b"b"), (b"content-length", str(len(expected)).encode())]]
    assert b"".join(sent) == expected
    assert max(map(len, sent)) <= 1 << 20
    assert len(sent) < 25
    assert pieces == []
