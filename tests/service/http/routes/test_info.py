"""GET /info: the model, and every limit in force."""

import importlib.metadata

import httpx
import numpy as np

from elmo_model import checkpoints
from elmo_model.inference.centre import centre_of
from elmo_model.inference.encoder import Encoder
from elmo_serve.settings import Settings
from tests.support.servers import SMALL
from tests.support.vectors import close


def test_info_names_the_model(client: httpx.Client) -> None:
    info = client.get("/info").json()

    assert info["model"] == "small"
    assert info["format"] == "allennlp"
    assert len(info["revision"]) == 12
    assert info["layers"] == 3
    assert info["dimension"] == 32
    assert info["parameters"] > 100_000
    assert info["precision"] == "float32"
    assert set(info["kernel"]) == set(info["devices"])
    assert info["kernel"]["cpu"].startswith("float32")
    assert info["devices"] == ["cpu"]
    assert info["version"] == importlib.metadata.version("elmo-serve")
    assert info["media_types"][0] == "application/json"


def test_info_says_every_limit_in_force(narrow_client: httpx.Client) -> None:
    limits = narrow_client.get("/info").json()["limits"]

    assert limits == {
        "max_batch_tokens": 6,
        "max_queue_tokens": 16,
        "max_request_sentences": 3,
        "max_sentence_tokens": 4,
        "max_body_bytes": 1_000,
        "max_answer_bytes": 4_000,
        "max_connections": 20,
        "request_timeout_seconds": 300.0,
        "client_timeout_seconds": 30.0,
        "drain_timeout_seconds": 7.5,
    }


def test_every_limit_that_can_be_set_is_in_info(client: httpx.Client) -> None:
    limits = client.get("/info").json()["limits"]

    named = {name for name in Settings.model_fields if name.startswith("max_") or "timeout" in name}
    assert set(limits) == named


def test_one_device_is_listed_for_each_worker(narrow_client: httpx.Client) -> None:
    assert narrow_client.get("/info").json()["devices"] == ["cpu", "cpu"]


def test_the_centre_is_the_mean_of_each_layer(client: httpx.Client) -> None:
    info = client.get("/info").json()

    found = client.get("/info/centre").json()

    encoder = Encoder.of(checkpoints.load(SMALL))
    expected = centre_of(encoder, max_tokens=512)
    close(np.array(found.pop("layers"), np.float32), expected.layers)
    assert found == {
        "model": info["model"],
        "revision": info["revision"],
        "text": "english",
        "tokens": expected.tokens,
    }
    assert client.head("/info/centre").status_code == 200
