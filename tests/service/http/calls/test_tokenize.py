"""Text is split in order, within the limits of the server."""

from collections.abc import Sequence
from dataclasses import replace

import orjson
import pytest

from elmo_serve.errors import InvalidRequest, ServiceError, TooLarge
from elmo_serve.http.calls.parse import parse
from elmo_serve.http.calls.tokenize import tokenize
from elmo_serve.http.helpers.helpers import Helpers
from elmo_serve.http.helpers.text import TokenizedTexts
from elmo_serve.http.schemas.clients import EmbeddingsRequest
from elmo_serve.http.schemas.text import TokenizeRequest
from elmo_serve.http.state import Server, assemble
from elmo_serve.processes.arena import Arena
from elmo_serve.settings import Settings
from elmo_serve.workers.messages import ModelInfo
from tests.support.in_process import HelpersHere

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
    found.helpers = Helpers.of(Arena(), found.metrics, 1, HelpersHere)
    return found


async def split(server: Server, texts: Sequence[str], tokenizer: str | None) -> TokenizedTexts:
    content = orjson.dumps({"text": texts, "tokenizer": tokenizer})
    body = parse(TokenizeRequest, content, server.models.request_limits)
    return await tokenize(server, MODEL, body, tokenizer=tokenizer)


async def refusal(server: Server, texts: Sequence[str], tokenizer: str | None) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        await split(server, texts, tokenizer)
    return caught.value


async def test_texts_come_back_in_order_whatever_the_parts(server: Server) -> None:
    texts = [f"{number} {'x' * (number % 7 * 400)}" for number in range(300)]
    found = await split(server, [*texts, ""], "whitespace")

    assert [orjson.loads(tokens) for tokens in found.sentences] == [*map(str.split, texts), []]
    assert found.lengths == [*(len(text.split()) for text in texts), 0]
    long = [number for number, text in enumerate(texts) if len(text) > 60]
    assert [warning.sentence for warning in found.warnings.listed] == long[:20]
    assert found.warnings.count == len(long)


async def test_no_texts_need_no_process(server: Server) -> None:
    assert (await split(server, [], "ptb")).sentences == []


async def test_lists_of_tokens_stay_between_split_texts(server: Server) -> None:
    given = ["a b", ["c d"], "e", [], ["f"]]
    content = orjson.dumps({"input": given})
    body = parse(EmbeddingsRequest, content, server.models.request_limits)

    found = await tokenize(server, MODEL, body, tokenizer="whitespace")

    assert list(map(orjson.loads, found.sentences)) == [["a", "b"], ["c d"], ["e"], [], ["f"]]
    assert found.lengths == [2, 1, 1, 0, 1]


async def test_the_default_is_the_tokenizer_of_the_model(server: Server) -> None:
    found = {}
    for name, language in (("ptb", "en"), ("moses", "en"), ("moses", "fr")):
        model = replace(MODEL, tokenizer=name, language=language)
        body = parse(TokenizeRequest, b'{"text": ["can\'t"]}', server.models.request_limits)
        texts = await tokenize(server, model, body)
        found[name, language] = orjson.loads(texts.sentences[0])

    assert found == {
        ("ptb", "en"): ["ca", "n't"],
        ("moses", "en"): ["can", "'t"],
        ("moses", "fr"): ["can'", "t"],
    }


async def test_every_limit_refuses_with_its_setting(server: Server) -> None:
    too_many = await refusal(server, ["a"] * 401, "ptb")
    assert isinstance(too_many, TooLarge)
    assert "401 texts and at most 400 are allowed (ELMO_MAX_REQUEST_SENTENCES)" in too_many.detail

    too_long = await refusal(server, ["a", "x" * 3_201], "ptb")
    assert isinstance(too_long, TooLarge)
    assert "Text 1 has 3201 characters and at most 3200 are allowed" in too_long.detail
    assert too_long.errors[0].pointer == "/text/1"

    too_wordy = await refusal(server, ["a"] * 300 + ["b " * 51], "ptb")
    assert isinstance(too_wordy, TooLarge)
    assert "Text 300 holds 51 words and at most 50 tokens are allowed" in too_wordy.detail
    assert too_wordy.errors[0].pointer == "/text/300"

    too_much = await refusal(server, ["a " * 40] * 50, "whitespace")
    assert isinstance(too_much, TooLarge)
    assert "more than 2000 tokens, boundaries included (ELMO_MAX_QUEUE_TOKENS)" in too_much.detail


async def test_an_unknown_tokenizer_and_a_changed_text_are_invalid(server: Server) -> None:
    unknown = await refusal(server, ["a"], "spacy")
    assert isinstance(unknown, InvalidRequest)
    assert unknown.detail == (
        "/tokenizer: must be 'ptb', 'moses', 'whitespace' or 'characters'; found 'spacy'"
    )
    changed = await refusal(server, ["a", "a DOTMULTI b"], "moses")
    assert isinstance(changed, InvalidRequest)
    assert changed.errors[0].pointer == "/text/1"
    assert "the tokenizer changed 'DOTMULTI b'" in changed.detail
