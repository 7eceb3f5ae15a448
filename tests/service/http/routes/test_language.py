"""POST /score and /substitutes: the values of the scorer, through the queue of /embed."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from elmo_model.models import opening
from elmo_model.training.perplexity import per_token
from elmo_serve.selection import Output
from elmo_serve.workers.language_results import Scores
from tests.support import training as golden
from tests.support.command_line import elmo
from tests.support.engines import until
from tests.support.in_process import InProcess, in_process
from tests.support.training import write_bundle

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCES = [["the", "of", "unheard-of"], [], ["not", "", "the"]]
WORDS = len(golden.vocabulary())
PAGE = (Path(__file__).parents[4] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"\$ curl .*http://localhost:8000(/\S+) .*\n +-d '(.*)'", PAGE)
JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[InProcess]:
    model = str(write_bundle(tmp_path_factory.mktemp("language") / "bilm_tf"))
    async with in_process(has_model=True, model=model) as serving:
        yield serving


async def test_the_mean_of_all_scores_is_the_perplexity(tmp_path: Path, serving: InProcess) -> None:
    expected = per_token(golden.first_model(tmp_path), golden.vocabulary(), SENTENCES)
    response = await serving.client.post("/score", json={"sentences": SENTENCES})
    info = (await serving.client.get("/info")).json()
    body = response.raise_for_status().json()
    assert (body["unit"], body["vocabulary"], body["vocabulary_total"]) == ("bits", WORDS, WORDS)
    assert body["model"] == info["model"]
    assert info["softmax"] is True
    assert body["usage"] == {"sentences": 3, "tokens": 6}
    assert "tokens" not in body
    scores = body["scores"]
    for name, loss in (("forward", expected.forward_loss), ("backward", expected.backward_loss)):
        bits = [bit for each in scores for bit in (*each[name], each["end"][name])]
        assert len(bits) == expected.predictions
        assert np.mean(bits) == pytest.approx(loss / math.log(2), abs=1e-4)
    assert [each["unknown"] for each in scores] == [[False, False, True], [], [False, True, False]]
    assert scores[1] == {
        "forward": [], "backward": [], "both": [], "unknown": [], "end": scores[1]["end"],
    }  # fmt: skip
    both = np.mean([scores[0]["forward"], scores[0]["backward"]], axis=0)
    np.testing.assert_allclose(scores[0]["both"], both, rtol=1e-6)


async def test_the_default_model_agrees_with_elmo_perplexity(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    card = Path(opening.__file__).with_name("english.txt")
    sentences = [line.split() for line in card.read_text().splitlines()[:8]]
    text.write_text("".join(f"{' '.join(tokens)}\n" for tokens in sentences))
    measured = elmo("perplexity", "english", text, "--sentences", len(sentences), "--json")
    expected = json.loads(measured.stdout)
    async with in_process(has_model=True, model="english") as serving:
        response = await serving.client.post("/score", json={"sentences": sentences})
        for path, documented in EXAMPLES:
            example = await serving.client.post(path, content=documented, headers=JSON)
            assert example.status_code == 200, example.text
    assert [path for path, _ in EXAMPLES] == ["/score", "/substitutes"]
    body = response.raise_for_status().json()
    assert body["vocabulary"] == 50_000
    for name in ("forward", "backward"):
        bits = [bit for each in body["scores"] for bit in (*each[name], each["end"][name])]
        assert len(bits) == expected["predictions"]
        # Vectors meet the softmax with 15 bits here, with 24 there.
        assert np.mean(bits) == pytest.approx(math.log2(expected[name]), abs=1e-4)


async def test_text_is_split_and_npz_has_three_rows_a_sentence(tmp_path: Path) -> None:
    model = str(write_bundle(tmp_path / "bilm_tf"))
    body = {"text": ["the of it", "not"], "tokenizer": "whitespace"}
    async with in_process(has_model=True, model=model, softmax_words=10) as serving:
        found = (await serving.client.post("/score", json=body)).json()
        accept = {"Accept": "application/x-npz"}
        packed = await serving.client.post("/score", json=body, headers=accept)
        refused = await serving.client.post(
            "/score", json=body, headers={"Accept": "application/vnd.safetensors"}
        )
    assert found["tokenizer"] == "whitespace"
    assert found["tokens"] == [["the", "of", "it"], ["not"]]
    assert found["offsets"] == [[[0, 3], [4, 6], [7, 9]], [[0, 3]]]
    assert (found["vocabulary"], found["vocabulary_total"]) == (10, WORDS)
    assert found["scores"][0]["unknown"] == [False, False, True]  # `it` is not in the first ten
    assert packed.headers["content-type"] == "application/x-npz"
    assert packed.headers["x-vocabulary"] == f"10/{WORDS}"
    with np.load(io.BytesIO(packed.content)) as archive:
        for number, each in enumerate(found["scores"]):
            rows = [each[name] for name in ("forward", "backward", "both")]
            np.testing.assert_array_equal(archive[str(number)], np.array(rows, np.float32))
        assert "tokens" in archive
    assert refused.status_code == 406
    assert "application/json, application/x-npz" in refused.json()["detail"]


async def test_substitutes_have_the_probabilities_of_the_scores(serving: InProcess) -> None:
    scores = (await serving.client.post("/score", json={"sentences": SENTENCES})).json()
    found: dict[str, Any] = {}
    for direction in ("forward", "backward", "both"):
        asked = {"sentences": SENTENCES, "positions": [[1, 0], [], [2]], "k": 100}
        response = await serving.client.post("/substitutes", json={**asked, "direction": direction})
        found[direction] = response.raise_for_status().json()
    few = {"text": ["the of it"], "tokenizer": "whitespace", "positions": [[1]]}
    default = (await serving.client.post("/substitutes", json=few)).json()
    for direction, body in found.items():
        assert (body["direction"], body["vocabulary"]) == (direction, WORDS)
        lists = body["substitutes"]
        assert [len(places) for places in lists] == [2, 0, 1]
        for words in (*lists[0], *lists[2]):
            values = [each["probability"] for each in words]
            assert values == sorted(values, reverse=True)
            assert len(values) == WORDS - 3
            assert sum(values) < 1 + 1e-4  # float32; `both` has no other candidates
        if direction != "both":
            (own,) = [e["probability"] for e in lists[0][0] if e["word"] == "of"]
            bits = scores["scores"][0][direction][1]
            assert -math.log2(own) == pytest.approx(bits, abs=1e-4)
    assert default["direction"] == "both"
    assert default["tokens"] == [["the", "of", "it"]]
    assert len(default["substitutes"][0][0]) == 10


async def test_vectors_and_scores_share_a_batch_and_change_nothing(serving: InProcess) -> None:
    body = {"sentences": SENTENCES}
    alone = [(await serving.client.post(path, json=body)).json() for path in ("/embed", "/score")]
    serving.worker.close()
    first = asyncio.ensure_future(serving.client.post("/embed", json={"sentences": [["a"]]}))
    await until(lambda: bool(serving.worker.queue))
    asked = [serving.client.post(path, json=body) for path in ("/embed", "/score")]
    both = asyncio.gather(first, *asked)
    (queue,) = serving.server.engine.queues.values()
    await until(lambda: queue.sentences == 2 * len(SENTENCES))
    serving.worker.open()
    together = [response.json() for response in (await both)[1:]]
    kinds = {type(output) for output in serving.worker.batches[-1].outputs}
    assert together == alone
    assert kinds == {Output, Scores}
