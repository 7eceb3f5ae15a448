"""Text is split in order, within the limits of the server."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from elmo_serve.http.body import TokenizedTexts, parse
from elmo_serve.http.limits import RequestLimits
from elmo_serve.http.schemas.embed import TokenizeRequest
from elmo_serve.http.texts import Tokenize, tokenize
from elmo_serve.workers.messages import ModelInfo
from tests.support.in_process import helpers_here

MODEL = ModelInfo("small", "1", "none", 3, 4, 0, "float32")
LIMITS = RequestLimits(sentences=400, sentence_tokens=50)
MOST_TOKENS = 2_000


async def split(
    texts: Sequence[str], tokenizer: str | None, model: ModelInfo = MODEL
) -> TokenizedTexts:
    body = parse(TokenizeRequest, orjson.dumps({"text": texts}), LIMITS)
    task = Tokenize.of(model, tokenizer, LIMITS.sentence_tokens)
    return await tokenize(helpers_here(), "", task, body, MOST_TOKENS)


async def test_texts_come_back_in_order_whatever_the_parts() -> None:
    texts = [f"{number} {'x' * (number % 7 * 400)}" for number in range(300)]
    found = await split([*texts, ""], "whitespace")

    assert [orjson.loads(tokens) for tokens in found.sentences] == [*map(str.split, texts), []]
    assert found.lengths == [*(len(text.split()) for text in texts), 0]


async def test_no_texts_need_no_process() -> None:
    assert (await split([], "ptb")).sentences == []


async def test_the_default_is_the_tokenizer_of_the_model() -> None:
    found = {}
    for name, language in (("ptb", "en"), ("moses", "en"), ("moses", "fr")):
        model = replace(MODEL, tokenizer=name, language=language)
        texts = await split(["can't"], None, model)
        found[name, language] = orjson.loads(texts.sentences[0])

    assert found == {
        ("ptb", "en"): ["ca", "n't"],
        ("moses", "en"): ["can", "'t"],
        ("moses", "fr"): ["can'", "t"],
    }
