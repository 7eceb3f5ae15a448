"""GET /info: the model, and every limit in force."""

import importlib.metadata
import json
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np

from elmo_model import checkpoints
from elmo_model.inference.centre import centre_of
from elmo_model.inference.encoder import Encoder
from elmo_model.network.description import Description, Trained
from elmo_serve.settings import Settings
from tests.support.in_process import in_process
from tests.support.made_up import made_up_index
from tests.support.servers import SMALL
from tests.support.vectors import close
from tests.support.workers import INFO


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


async def test_info_has_the_training_that_the_checkpoint_states(tmp_path: Path) -> None:
    elmo = checkpoints.load(SMALL)
    stated = Description(trained=Trained(2_000, 31.5))
    elmo.origin = replace(elmo.origin, description=stated)
    checkpoints.save(elmo, tmp_path / "own.safetensors")

    async with in_process(has_model=True, model=str(tmp_path / "own.safetensors")) as serving:
        info = (await serving.client.get("/info")).json()

    assert info["trained"] == {"tokens": 2_000, "perplexity": 31.5}


async def test_info_has_the_examples_of_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    made_up_index(folder, [["a", "b"]], revision=INFO.revision)
    examples = [{"word": "bank", "sentences": ["the bank lends", "a bank of sand"]}]
    for stored, shown in ((examples, examples), ([], None)):
        facts = json.loads((folder / "index.json").read_bytes())
        (folder / "index.json").write_text(json.dumps({**facts, "examples": stored}))

        async with in_process(index=[folder]) as serving:
            info = (await serving.client.get("/info")).json()

        text = {"text": "made up", "tokens": 2, "sentences": 1}
        assert info["index"] == {**text, "examples": shown}
        assert info["trained"] is None
