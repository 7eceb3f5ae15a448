"""POST /embed through the front door: the golden vectors, and every sentence of the contract."""

import json
import re
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from elmo_serve.http.media_types import ENCODERS
from elmo_serve.http.schemas.embed import EmbedRequest
from tests.support.answers import Answers
from tests.support.embeddings import decoded
from tests.support.servers import SMALL

Array = npt.NDArray[Any]

NPZ, SAFETENSORS, JSON = "application/x-npz", "application/vnd.safetensors", "application/json"
BINARY = (NPZ, SAFETENSORS)
LAYERS, WIDTH = 3, 32
MIX = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}
WANTED: list[dict[str, Any]] = [
    {},
    {"layers": "all"},
    {"layers": "top"},
    {"layers": "average"},
    {"layers": "sum"},
    {"layers": "concat"},
    {"normalize": True},
    {"layers": "concat", "normalize": True},
    {"layers": 1},
    {"layers": [1]},
    {"layers": [2, 0]},
    {"layers": [1, 1]},
    {"mix": MIX},
    {"mix": {**MIX, "layer_norm": True}},
    {"mix": MIX, "normalize": True},
]
SENTENCES = [["The", "cat", "sat", "."], [], ["Zürich", "", "東京", "x" * 60], ["alone"]]


def answer(client: httpx.Client, media_type: str, **body: Any) -> httpx.Response:
    response = client.post("/embed", json=body, headers={"Accept": media_type})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == media_type
    return response


def vectors(client: httpx.Client, sentences: Any, media_type: str = NPZ, **wanted: Any) -> Any:
    response = answer(client, media_type, sentences=sentences, **wanted)
    return decoded(media_type, response.content)


def test_fields_that_are_null_have_their_defaults(client: httpx.Client) -> None:
    nulls = dict.fromkeys(set(EmbedRequest.model_fields) - {"sentences"})

    found = answer(client, JSON, sentences=SENTENCES, **nulls).json()

    assert found == answer(client, JSON, sentences=SENTENCES).json()


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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pooling", ["none", "mean", "max"])
def test_all_media_types_say_the_same_to_the_bit(
    client: httpx.Client, dtype: str, pooling: str
) -> None:
    for wanted in WANTED:
        body = {"sentences": SENTENCES, "dtype": dtype, "pooling": pooling, **wanted}
        binary = [
            decoded(media_type, answer(client, media_type, **body).content) for media_type in BINARY
        ]
        text = json.loads(answer(client, JSON, **body).content)["embeddings"]

        for spoken, *arrays in zip(text, *binary, strict=True):
            one = np.asarray(spoken, dtype)
            for array in arrays:
                assert array.dtype == np.dtype(dtype)
                np.testing.assert_array_equal(array, one.reshape(array.shape))
            assert len({array.shape for array in arrays}) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pooling", ["none", "mean", "max"])
def test_every_output_is_made_of_the_layers_of_the_network(
    client: httpx.Client, dtype: str, pooling: str
) -> None:
    answers = Answers(str(SMALL), SENTENCES)
    for wanted in WANTED:
        options = {**wanted, "pooling": pooling, "dtype": dtype}
        for index, array in enumerate(vectors(client, SENTENCES, **options)):
            assert answers.difference(array, index, options) < 1, (options, index)


@pytest.mark.parametrize("layer", [0, 1, 2.0])
def test_a_number_is_that_layer_without_its_axis(client: httpx.Client, layer: float) -> None:
    found = answer(client, JSON, sentences=SENTENCES, layers=layer).json()
    listed = answer(client, JSON, sentences=SENTENCES, layers=[layer]).json()

    assert found["layers"] == listed["layers"] == [int(layer)]
    assert found["embeddings"] == [each for (each,) in listed["embeddings"]]
    for options in ({"pooling": "max"}, {"normalize": True}, {"dtype": "float16"}):
        own = vectors(client, SENTENCES, layers=layer, **options)
        stacked = vectors(client, SENTENCES, layers=[layer], **options)
        for one, (other,) in zip(own, stacked, strict=True):
            np.testing.assert_array_equal(one, other)


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
