"""The client for coroutines."""

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from elmo_client.batches import (
    EmbedRequest,
    RequestBatches,
    TextBatches,
    check_sentences,
    check_several,
    check_texts,
    json_bytes,
)
from elmo_client.http import Call, ClientOptions, Session, query_of
from elmo_client.responses import (
    centre_of,
    json_of,
    models_of,
    substitutes_of,
    task_of,
    texts_of,
    vectors_of,
)
from elmo_client.results import (
    EmbeddedText,
    Scores,
    Task,
    TokenizedText,
    Vectors,
)
from elmo_client.selection import NOTHING, EmbedOptions, Mix, Selection, given, mix_of

Sentences = Iterable[Sequence[str]] | AsyncIterable[Sequence[str]]
Texts = Iterable[str] | AsyncIterable[str]

_Result = TypeVar("_Result")


class AsyncClient:
    """Asks a server for vectors, from the coroutines of one event loop. Close it after use."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        """Set the address of the server; nothing is sent yet. See `Client`."""
        self._session = Session(url, **given(options))

    async def embed(self, sentences: Sentences, **options: Unpack[EmbedOptions]) -> list[Vectors]:
        """Return one array per sentence. See `Client.embed`."""
        return [array async for array in self.stream(sentences, **options)]

    def stream(
        self, sentences: Sentences, **options: Unpack[EmbedOptions]
    ) -> AsyncIterator[Vectors]:
        """Yield the arrays of `embed` one by one, with bounded memory.

        `sentences` may be endless. It is read only as far as requests are in flight; `Client` reads
        it in the calling thread.
        """
        check_sentences(sentences)
        selection = Selection.of(**options)
        embed = partial(self._session.embed, vectors_of)
        return self._stream(sentences, RequestBatches, selection, embed)

    async def embed_text(
        self, texts: Texts, *, tokenizer: str | None = None, **options: Unpack[EmbedOptions]
    ) -> list[EmbeddedText]:
        """Return tokens, offsets and vectors of each text. See `Client.embed_text`."""
        found = self.stream_text(texts, tokenizer=tokenizer, **options)
        return [each async for each in found]

    def stream_text(
        self, texts: Texts, *, tokenizer: str | None = None, **options: Unpack[EmbedOptions]
    ) -> AsyncIterator[EmbeddedText]:
        """Yield the results of `embed_text` one by one, with bounded memory; see `stream`."""
        check_texts(texts)
        selection = Selection.of(**options).with_members(tokenizer=tokenizer)
        return self._stream(texts, TextBatches, selection, partial(self._session.embed, texts_of))

    async def tokenize(self, texts: Texts, *, tokenizer: str | None = None) -> list[TokenizedText]:
        """Return the tokens and offsets that `embed_text` makes of each text."""
        check_texts(texts)
        selection = NOTHING.with_members(tokenizer=tokenizer)
        found = self._stream(texts, TextBatches, selection, self._session.tokenize)
        return [each async for each in found]

    async def neighbours(
        self,
        sentence: str | Sequence[str],
        token: int,
        *,
        layers: Literal["top", "average"] | int | None = None,
        task: str | None = None,
        mix: Mix | None = None,
        k: int = 10,
        tokenizer: str | None = None,
    ) -> dict[str, Any]:
        """Return the response of POST /neighbours: the uses that are nearest to a token.

        `neighbours` are the uses, each with `sentence`, `token`, `line` and `cosine`; `static` are
        the words that are nearest without a sentence, each with `word` and `cosine`.

        A server without an index embeds a text of its own first; the client asks again until that
        is done, for `patience_seconds` at most.

        Args:
            sentence: a text, or a list of tokens.
            token: the number of the token in it, counted from 0.
            layers: the layer that is compared: "top" (the default), "average" or its number.
            task: name of a registered task, whose mix is compared.
            mix: weights of such a mix, as in `embed`.
            k: how many neighbours at most, from 1 to 100.
            tokenizer: splits a text, as in `embed_text`.
        """
        options = {"layers": layers, "task": task, "k": k, "tokenizer": tokenizer}
        weights = None if mix is None else mix_of(mix)
        member = "text" if isinstance(sentence, str) else "tokens"
        body = {member: sentence, "token": token, "mix": weights, **options}
        return await self._post("/neighbours", body)

    async def score(
        self,
        sentences: Iterable[str] | Iterable[Sequence[str]],
        *,
        tokenizer: str | None = None,
    ) -> list[Scores]:
        """Return the surprisal of each token, in bits, in the order of the sentences.

        The first token has a value as well: it is predicted after the begin boundary.

        Args:
            sentences: lists of tokens, or texts.
            tokenizer: splits texts, as in `embed_text`.
        """
        check_several(sentences, "sentences", "a list of texts, or of lists of tokens")
        every = list(sentences)
        cut = TextBatches if every and isinstance(every[0], str) else RequestBatches
        selection = NOTHING.with_members(tokenizer=tokenizer)
        found = self._stream(every, cut, selection, self._session.score)
        return [each async for each in found]

    async def substitutes(
        self,
        sentence: str | Sequence[str],
        positions: Sequence[int],
        *,
        k: int | None = None,
        direction: Literal["forward", "backward", "both"] = "both",
        tokenizer: str | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return the most probable words at places of a sentence, a list for each place.

        Each word has the members `word` and `probability`.

        Args:
            sentence: a text, or a list of tokens.
            positions: the numbers of the tokens, counted from 0, at most 64. The tokens are not
                looked at.
            k: how many words at most, from 1 to 100; 10 by default.
            direction: "forward" predicts from the tokens before, "backward" from those after,
                "both" (the default) is the product of their probabilities divided by the
                share of the word in text, normalised.
            tokenizer: splits a text, as in `embed_text`.
        """
        options = {"k": k, "direction": direction, "tokenizer": tokenizer}
        member = "text" if isinstance(sentence, str) else "sentences"
        body = {member: [sentence], "positions": [positions], **options}
        return substitutes_of(await self._post("/substitutes", body))

    async def info(self) -> dict[str, Any]:
        """Return the response of GET /info. The server is asked once."""
        return await self._session.info()

    async def centre(self) -> NDArray[np.float32]:
        """Return the mean of each layer over a text of the server, (L + 1, 2P).

        Subtract it from the vectors of all layers before their cosines are computed.
        """
        path = "/info/centre" + query_of(self._session.model)
        return centre_of(json_of(await self._session.send(Call("GET", path))))

    async def dimension(self) -> int:
        """Return 2P, the width of the model's vectors; (L + 1) 2P for `concat`."""
        return int((await self.info())["dimension"])

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server has."""
        return models_of(await self.info())

    async def tasks(self) -> tuple[Task, ...]:
        """Return the registered tasks in the order of their names."""
        response = await self._session.send(Call("GET", "/tasks" + query_of(self._session.model)))
        return tuple(task_of(entry) for entry in json_of(response).get("tasks", ()))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _post(self, path: str, members: Mapping[str, Any]) -> dict[str, Any]:
        body = json_bytes(given({**members, "model": self._session.model}), "the request")
        response = await self._session.send(Call("POST", path, body))
        return json_of(response)

    async def _stream(
        self,
        sentences: Sentences | Texts,
        cut: type[RequestBatches],
        selection: Selection,
        embed: Callable[[EmbedRequest, Mapping[str, Any]], Coroutine[Any, Any, list[_Result]]],
    ) -> AsyncIterator[_Result]:
        info = await self._session.info()
        selection = selection.with_members(model=self._session.model)
        batches = cut(info, selection, self._session.in_flight)
        running: deque[asyncio.Task[list[_Result]]] = deque()
        requests = batches.cut_any(sentences)
        cutting: asyncio.Task[EmbedRequest | None] | None = None
        is_at_end = False
        try:
            while running or not is_at_end:
                if not (cutting or is_at_end) and len(running) < self._session.in_flight:
                    cutting = asyncio.create_task(_next(requests))
                # A slow source holds up no response that has come.
                waited = [*([cutting] if cutting else []), *list(running)[:1]]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if running and running[0].done():
                    for array in await running.popleft():
                        yield array
                if cutting and cutting.done():
                    request, cutting = await cutting, None
                    is_at_end = request is None
                    if request is not None:
                        running.append(asyncio.create_task(embed(request, info)))
        finally:
            rest = [*running, *([cutting] if cutting else [])]
            for each in rest:
                each.cancel()
            await asyncio.gather(*rest, return_exceptions=True)


async def _next(requests: AsyncIterator[EmbedRequest]) -> EmbedRequest | None:
    """Return the next request; None at the end."""
    return await anext(requests, None)
