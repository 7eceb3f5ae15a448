"""Client, and AsyncClient behind the same methods, against real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_client import (
    CannotSend,
    Client,
    ElmoEmbedder,
    InvalidRequest,
    NotFound,
    Task,
    TooLarge,
    Unauthorized,
)
from elmo_model.network.elmo import ElmoNetwork
from tests.support import command_line
from tests.support.checkpoints import write_pair
from tests.support.servers import SMALL, Running, running
from tests.support.vectors import all_close, layers_of, sentences_of

SENTENCES = [["The", "cat", "sat", "."], [], ["", "Zürich", "x" * 60], ["a", "b"]]


def test_vectors_equal_those_of_the_network(sdk: Client, elmo: ElmoNetwork) -> None:
    layers = layers_of(elmo, SENTENCES)

    all_close(sdk.embed(SENTENCES), layers)
    mixed = sdk.embed(SENTENCES, mix={"weights": [0, 0, 0], "gamma": 2}, dtype="float16")
    all_close(mixed, [2 * each.mean(0) for each in layers], "float16")
    assert sdk.embed([]) == []


def test_any_number_of_sentences_fits_through_narrow_limits(
    narrow_sdk: Client, elmo: ElmoNetwork
) -> None:
    # 3 sentences, 16 tokens in the queue, 1,000 bytes of body and 4,000 of responses at a time.
    sentences = sentences_of(60, longest=4)

    all_close(narrow_sdk.embed(sentences), layers_of(elmo, sentences))


def test_an_async_iterable_is_for_the_other_client() -> None:
    async def sentences() -> AsyncIterator[list[str]]:
        yield ["a"]

    with Client("http://localhost:1", patience_seconds=0) as client:
        given: Any = sentences()
        with pytest.raises(CannotSend, match="an async iterable is read by AsyncClient"):
            client.embed(given)


def test_a_sentence_that_is_too_long_has_its_number_in_the_error(narrow_sdk: Client) -> None:
    with pytest.raises(TooLarge, match="sentence 1") as error:
        narrow_sdk.embed([["fine"], ["a"] * 5])
    assert error.value.first == 1


def test_tasks_are_listed_and_used(server: Running, sdk: Client, tasks: Path) -> None:
    mix = {"weights": [0.5, -1.0, 2.0], "gamma": 1.5}
    server.serve_task("sense", **mix, description="an example")

    assert sdk.tasks() == (Task("sense", (0.5, -1.0, 2.0), 1.5, False, "an example"),)
    all_close(sdk.embed(SENTENCES, task="sense"), sdk.embed(SENTENCES, mix=mix))
    with pytest.raises(NotFound) as error:
        sdk.embed(SENTENCES, task="other")
    assert error.value.problem.type == "urn:elmo-serve:error:unknown-task"
    assert error.value.problem.instance


def test_a_refusal_carries_its_document(sdk: Client) -> None:
    with pytest.raises(InvalidRequest) as error:
        sdk.embed(SENTENCES, layers=[0, 7])

    problem = error.value.problem
    assert problem.status == 422
    assert problem.errors[0].pointer == "/layers/1"
    assert "there is no layer 7" in str(error.value)


def test_a_wrong_key_is_reported_and_never_shown(client_class: Any, narrow: Running) -> None:
    for key, found in ((None, "401 An API key is needed"), ("sesame", "API key")):
        with client_class(narrow.url, api_key=key) as client, pytest.raises(Unauthorized) as error:
            client.info()
        assert found in str(error.value)
        assert "sesame" not in repr(client) + str(error.value)


def test_the_name_of_a_model_is_no_address(client_class: Any) -> None:
    with pytest.raises(CannotSend, match="'english' is not the URL"):
        client_class("english")


def test_threads_share_a_client(server: Running, elmo: ElmoNetwork) -> None:
    sentences = sentences_of(100)
    with Client(server.url) as client, ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(client.embed, [sentences] * 4))

    expected = layers_of(elmo, sentences)
    for answer in answers:
        all_close(answer, expected)


def test_the_input_may_come_from_the_same_client(server: Running, elmo: ElmoNetwork) -> None:
    # The input is read in the calling thread: on the event loop this would wait for itself.
    with Client(server.url) as client:
        words = (["a"] * len(array) for array in client.stream(SENTENCES, layers="top"))
        found = client.embed(words)

    all_close(found, layers_of(elmo, [["a"] * len(each) for each in SENTENCES]))


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of the golden model and of one of four layers."""
    folder = tmp_path_factory.mktemp("two")
    deep = write_pair(folder / "deep", layers=3, projection=6)
    with running(folder, models=f"{SMALL},four={deep}", tasks=folder / "tasks") as server:
        yield server


def test_a_client_chooses_one_of_the_models(client_class: Any, two_models: Running) -> None:
    with client_class(two_models.url, model="four") as client:
        (array,) = client.embed([["a", "b"]])
        assert array.shape == (4, 2, 12)
        assert client.info()["model"] == "four"
        two_models.serve_task("chunk", weights=[0, 0, 0, 9], model="four")
        assert [task.name for task in client.tasks()] == ["chunk"]
        (mixed,) = client.embed([["a", "b"]], task="chunk")
        np.testing.assert_allclose(mixed, array[3], atol=1e-2)
        assert client.centre().shape == (4, 12)
    with client_class(two_models.url) as client:
        assert client.embed([["a", "b"]])[0].shape == (3, 2, 32)
        assert client.tasks() == ()
    with ElmoEmbedder(two_models.url, model="four") as embedder:
        assert embedder.embed_sentence(["a"]).shape == (4, 1, 12)


def test_elmo_embed_chooses_one_of_the_models(two_models: Running, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b\n")
    output = tmp_path / "out.npz"
    command = ("embed", tmp_path / "in.txt", output, "--all", "--server", two_models.url)

    done = command_line.elmo(*command, "--model", "four", ELMO_MODEL="no-such")
    first = command_line.elmo(*command, "--force", ELMO_MODEL="no-such")

    assert (done.exit_code, first.exit_code) == (0, 0), done.output + first.output
    assert np.load(output)["0"].shape == (3, 2, 32)


def test_both_clients_find_neighbours(client_class: Any, searched: Running) -> None:
    with client_class(searched.url) as client:
        found = client.neighbours(["The", "bank"], 1, layers="average", k=3)
        mix = np.zeros(3, np.float32)
        mixed = client.neighbours("The bank", 1, mix=mix, k=3, tokenizer="whitespace")

    assert found["tokens"] == ["The", "bank"]
    assert [len(found["neighbours"]), len(found["static"])] == [3, 3]
    assert mixed == found
    assert found["neighbours"][0]["cosine"] >= found["neighbours"][2]["cosine"]
