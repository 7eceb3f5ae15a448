"""Text is split in order, within the limits of the server."""

from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from elmo_serve.http.parse import parse
from elmo_serve.http.schemas.embed import TokenizeRequest
from elmo_serve.http.splitting import TokenizedTexts
from elmo_serve.http.state import Server, assemble
from elmo_serve.http.texts import tokenize
from elmo_serve.settings import Settings
from elmo_serve.workers.messages import ModelInfo
from tests.support.in_process import helpers_here

MODEL = ModelInfo("small", "1", "none", 3, 4, 0, "float32")
LIMITS = {
    "devices": "cpu",
    "max_sentence_tokens": 50,
    "max_queue_tokens": 2_000,
    "max_request_sentences": 400,
}


@pytest.fixture
def server() -> Server:
    found = assemble(Settings.model_validate(LIMITS))
    found.helpers = helpers_here()
    return found


async def split(server: Server, texts: Sequence[str], tokenizer: str | None) -> TokenizedTexts:
    content = orjson.dumps({"text": texts, "tokenizer": tokenizer})
    body = parse(TokenizeRequest, content, server.models.request_limits)
    return await tokenize(server, "", MODEL, body, tokenizer=tokenizer)


async def test_texts_come_back_in_order_whatever_the_parts(server: Server) -> None:
    texts = [f"{number} {'x' * (number % 7 * 400)}" for number in range(300)]
    found = await split(server, [*texts, ""], "whitespace")

    assert [orjson.loads(tokens) for tokens in found.sentences] == [*map(str.split, texts), []]
    assert found.lengths == [*(len(text.split()) for text in texts), 0]


async def test_no_texts_need_no_process(server: Server) -> None:
    assert (await split(server, [], "ptb")).sentences == []


async def test_the_default_is_the_tokenizer_of_the_model(server: Server) -> None:
    found = {}
    for name, language in (("ptb", "en"), ("moses", "en"), ("moses", "fr")):
        model = replace(MODEL, tokenizer=name, language=language)
        body = parse(TokenizeRequest, b'{"text": ["can\'t"]}', server.models.request_limits)
        texts = await tokenize(server, "", model, body)
        found[name, language] = orjson.loads(texts.sentences[0])

    assert found == {
        ("ptb", "en"): ["ca", "n't"],
        ("moses", "en"): ["can", "'t"],
        ("moses", "fr"): ["can'", "t"],
    }
