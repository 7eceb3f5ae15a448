"""POST /embed through the front door: the golden vectors, and every sentence of the contract."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.schemas.embed import EmbedRequest
from elmo_serve.selection import Output
from tests.support.http_messages import decoded
from tests.support.in_process import in_process
from tests.support.servers import SMALL, write_task

Array = npt.NDArray[Any]

NPZ, SAFETENSORS, JSON = "application/x-npz", "application/vnd.safetensors", "application/json"
BINARY = (NPZ, SAFETENSORS)
LAYERS, WIDTH = 3, 32
MIX = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}
SENTENCES = [["The", "cat", "sat", "."], [], ["Zürich", "", "東京", "x" * 60], ["alone"]]


def answer(client: httpx.Client, media_type: str, **body: Any) -> httpx.Response:
    response = client.post("/embed", json=body, headers={"Accept": media_type})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == media_type
    return response


def vectors(client: httpx.Client, sentences: Any, media_type: str = NPZ, **wanted: Any) -> Any:
    response = answer(client, media_type, sentences=sentences, **wanted)
    return decoded(media_type, response.content)


def carried_by_json() -> list[tuple[int, list[str]]]:
    """Return the golden sentences, with their numbers, that UTF-8 can write."""
    content = json.loads((SMALL.parent / "sentences.json").read_text(encoding="utf-8"))
    return [
        (number, sentence)
        for number, sentence in enumerate(content["sentences"])
        if all(token.encode("utf-8", "ignore").decode() == token for token in sentence)
    ]


def golden(number: int) -> Array:
    """Return what AllenNLP answered in float64 for a sentence, boundaries cut."""
    with np.load(SMALL / "stateless_f64.npz") as file:
        name = next(name for name in file if name.endswith(f"_s{number}_full"))
        return np.asarray(file[name][:, 1:-1])


def test_vectors_are_those_of_allennlp(client: httpx.Client) -> None:
    numbers, sentences = zip(*carried_by_json(), strict=True)
    assert len(numbers) == 11  # all but the one with a lone surrogate

    found = vectors(client, sentences)

    for number, sentence, array in zip(numbers, sentences, found, strict=True):
        assert array.shape == (LAYERS, len(sentence), WIDTH)
        np.testing.assert_allclose(array, golden(number), rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"layers": "concat", "dtype": "float16"},
        {"layers": [2, 0], "pooling": "max"},
        {"mix": MIX, "pooling": "mean", "normalize": True},
    ],
)
def test_all_media_types_have_the_same_bits(client: httpx.Client, wanted: dict[str, Any]) -> None:
    text = answer(client, JSON, sentences=SENTENCES, **wanted).json()["embeddings"]
    binary = [vectors(client, SENTENCES, media_type, **wanted) for media_type in BINARY]

    for spoken, *arrays in zip(text, *binary, strict=True):
        one = np.asarray(spoken, wanted.get("dtype", "float32"))
        for array in arrays:
            np.testing.assert_array_equal(array, one.reshape(arrays[0].shape), strict=True)


ALL = Output(layers=(0, 1, 2), stacked=True)
MIXED = Output(weights=(0.5, -1.0, 2.0), gamma=1.5)


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({}, ALL),
        ({"layers": "top", "pooling": "max"}, Output(layers=(2,), pooling="max")),
        ({"layers": 2.0, "normalize": True}, Output(layers=(2,), normalize=True)),
        ({"layers": [2, 0]}, Output(layers=(2, 0), stacked=True)),
        ({"mix": MIX, "dtype": "float16"}, replace(MIXED, dtype="float16")),
        ({"mix": {**MIX, "layer_norm": True}}, replace(MIXED, layer_norm=True)),
        ({"task": "ner", "pooling": "mean"}, replace(MIXED, pooling="mean")),
        (dict.fromkeys(set(EmbedRequest.model_fields) - {"sentences"}), ALL),
    ],
)
async def test_the_fields_of_a_request_reach_the_worker(
    tmp_path: Path, fields: dict[str, Any], output: Output
) -> None:
    """tests/service/workers/test_vectors.py compares the vectors of every output."""
    write_task(tmp_path, "ner", **MIX)
    async with in_process(tasks=tmp_path) as serving:
        body = {"sentences": [["a"]], **fields}
        answered = await serving.client.post("/embed", json=body)

        assert answered.status_code == 200, answered.text
        assert serving.worker.batches[-1].outputs == (output,)


def test_float16_is_the_nearest_to_float32(client: httpx.Client) -> None:
    for half, single in zip(
        vectors(client, SENTENCES, dtype="float16"), vectors(client, SENTENCES), strict=True
    ):
        np.testing.assert_array_equal(half, single.astype(np.float16))


def test_a_request_without_sentences_has_an_answer_without_vectors(client: httpx.Client) -> None:
    assert [vectors(client, [], media_type) for media_type in BINARY] == [[]] * len(BINARY)
    body = answer(client, JSON, sentences=[]).json()
    assert (body["embeddings"], body["usage"]) == ([], {"sentences": 0, "tokens": 0})


def test_json_says_what_it_holds(client: httpx.Client) -> None:
    for wanted, layers in (
        ({}, [0, 1, 2]),
        ({"layers": "top"}, [2]),
        ({"layers": [2, 0]}, [2, 0]),
        ({"layers": "concat"}, [0, 1, 2]),
        ({"layers": "average"}, None),
        ({"mix": MIX}, None),
    ):
        body = answer(client, JSON, sentences=SENTENCES, **wanted).json()
        assert list(body) == ["model", "dimension", "layers", "embeddings", "usage"]
        width = WIDTH * (LAYERS if wanted == {"layers": "concat"} else 1)
        assert (body["model"], body["dimension"], body["layers"]) == ("small", width, layers)
        assert body["usage"] == {"sentences": 4, "tokens": 9}


@pytest.mark.parametrize("gamma", [1, 1_000, -1_000])
def test_a_sentence_in_other_company_differs_by_1e_5_of_gamma_at_most(
    client: httpx.Client, gamma: int
) -> None:
    mix = {"weights": [1, 2, 3], "gamma": gamma}
    alone = [vectors(client, [sentence], mix=mix)[0] for sentence in SENTENCES]

    for company in (SENTENCES, [*SENTENCES, ["w"] * 100], [*SENTENCES, *SENTENCES]):
        for one, two in zip(vectors(client, company, mix=mix), alone, strict=False):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-5 * abs(gamma))


def test_headers_of_an_answer(client: httpx.Client) -> None:
    for media_type in ENCODERS:
        response = answer(client, media_type, sentences=[["a"], []])

        assert response.headers["vary"] == "Accept"
        assert int(response.headers["content-length"]) == len(response.content)
        assert re.fullmatch(
            r"queue;dur=\d+\.\d, infer;dur=\d+\.\d, encode;dur=\d+\.\d",
            response.headers["server-timing"],
        )
        assert set(response.headers) == {
            *("date", "content-type", "content-length", "vary", "server-timing", "x-request-id")
        }


def test_a_body_may_come_in_chunks(client: httpx.Client) -> None:
    text = json.dumps({"sentences": SENTENCES, "layers": "top"}).encode()
    pieces = (text[start : start + 7] for start in range(0, len(text), 7))

    response = client.post("/embed", content=pieces, headers={"Content-Type": JSON})

    assert response.raise_for_status().json()["usage"] == {"sentences": 4, "tokens": 9}


@pytest.mark.parametrize("count", [200, 1_200])
def test_large_requests_and_answers_come_whole(client: httpx.Client, count: int) -> None:
    """Bodies of megabytes are read, and answers written, by other code than small ones."""
    sentences = [["x" * 40, f"{index}", "."][: 1 + index % 3] for index in range(count)]
    few = [*range(0, count, count // 7)]

    answers = {name: vectors(client, sentences, name, layers="top") for name in ENCODERS}

    expected = vectors(client, [sentences[index] for index in few], layers="top")
    for first, *others in zip(*answers.values(), strict=True):
        for other in others:
            np.testing.assert_array_equal(first, other)
    for index, alone in zip(few, expected, strict=True):
        np.testing.assert_allclose(answers[NPZ][index], alone, rtol=0, atol=1e-5)
