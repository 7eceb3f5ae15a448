"""The index of uses that each model is searched in: of `ELMO_INDEX`, or of the built-in text.

The built-in text is embedded as bulk work when it is first asked for, and kept in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from elmo_model.inference.centre import TEXT, sentences
from elmo_model.network.description import Centre
from elmo_model.text.by_length import by_length
from elmo_model.uses.files import IndexWriter, open_index
from elmo_model.uses.index import IndexInfo, UsesIndex
from elmo_model.uses.text import BUILT_IN, IndexFolderError, built_in_sentences
from elmo_serve.errors import Unavailable
from elmo_serve.scheduling.engine import Embedded, Engine
from elmo_serve.selection import ITEM_SIZES, Output
from elmo_serve.settings import Settings, SettingsError, variable
from elmo_serve.workers.messages import ModelInfo

_CLIENT: Final = "neighbours"
"""The name under which budgets count the work."""

_PIECE_SECONDS: Final = 600.0
"""Time for one piece of the text, which comes after every interactive request. A larger value keeps
`/neighbours` waiting longer on a server that is busy all the time."""

_LONGEST_RETRY: Final = 60.0
"""Largest Retry-After in seconds while the text is embedded."""

_FIRST_RETRY: Final = 5.0
"""Retry-After in seconds before the speed is known."""

_log = logging.getLogger("elmo_serve")

Indexes = Mapping[str, tuple[Path, UsesIndex]]
"""The indexes of `ELMO_INDEX`, with their folders, by the revision of their model."""


def open_indexes(folders: Sequence[Path], called: str = variable("index")) -> Indexes:
    """Open the indexes in some folders; `called` is the user's name for the setting.

    Raises SettingsError for a folder that is no whole index, and for two of one model.
    """
    indexes: dict[str, tuple[Path, UsesIndex]] = {}
    for folder in folders:
        try:
            index = open_index(folder)
        except IndexFolderError as error:
            raise _refusal(called, folder, str(error)) from None
        other, known = indexes.setdefault(index.info.revision, (folder, index))
        if known is not index:
            raise _refusal(called, folder, f"{other} is of the same model")
    return indexes


def check_indexes(indexes: Indexes, models: Mapping[str, str]) -> None:
    """Raise SettingsError for an index of no model; `models` has the revision of each name."""
    served = ", ".join(f"{name} is {revision}" for name, revision in models.items())
    for revision, (folder, index) in indexes.items():
        if revision not in models.values():
            fault = f"it is of the model {index.info.model}, revision {revision}; {served}"
            raise _refusal(variable("index"), folder, fault)


def _refusal(called: str, folder: Path, fault: str) -> SettingsError:
    return SettingsError(
        f"{called}={str(folder)!r} is not allowed: {fault}; allowed: a folder that "
        "`elmo index` has written for a model that is served"
    )


@dataclass(slots=True, eq=False)
class ModelUses:
    """The index that /neighbours searches: the user's, or that of the built-in text.

    `embedding` is the running computation of the built-in text.
    """

    engine: Engine
    model: str
    settings: Settings
    indexes: Indexes = field(default_factory=dict)
    embedding: asyncio.Task[UsesIndex] | None = field(default=None, init=False)
    _index: UsesIndex | None = field(default=None, init=False)
    _started_at: float = field(default=0.0, init=False)
    _done_tokens: int = field(default=0, init=False)

    def get(self) -> UsesIndex:
        """Return the index.

        Raises:
            Unavailable: the text is being embedded, or could not be; `detail` says how far it is.
        """
        if self._index is None:
            self._index = self.own or self._embedded()
        return self._index

    @property
    def centre(self) -> Centre:
        """The centre that is subtracted: that of the user's index, or else that of the model."""
        stated, index = self._info.centre, self.own
        assert stated is not None, "the model is loaded"
        if index is None:
            return stated
        if index.info.centre is None:  # an index of an older version
            return Centre(TEXT, sum(map(len, sentences())), index.centre)
        return Centre(index.info.centre, index.info.centre_tokens or 0, index.centre)

    @property
    def own(self) -> UsesIndex | None:
        """The user's index of the model, which is loaded."""
        return self.indexes.get(self._info.revision, (None, None))[1]

    def close(self) -> None:
        """End the work."""
        if self.embedding is not None:
            self.embedding.cancel()

    @property
    def _info(self) -> ModelInfo:
        info = self.engine.pool_of(self.model).info
        assert info is not None, "the model is loaded"
        return info

    def _embedded(self) -> UsesIndex:
        """Return the index if it is computed; start the computation if none runs."""
        if self.embedding is None:
            self._started_at, self._done_tokens = time.monotonic(), 0
            self.embedding = asyncio.create_task(self._embed())
        if self.embedding.done():
            embedding, self.embedding = self.embedding, None
            if (error := embedding.exception()) is None:
                return embedding.result()
            reason = f"The text of the uses could not be embedded: {error}. It is tried again."
            raise Unavailable(reason, retry_after=_LONGEST_RETRY)
        tokens = sum(map(len, built_in_sentences()))
        raise Unavailable(
            "The text that comes with the program is being embedded: "
            f"{self._done_tokens:,} of {tokens:,} tokens are done "
            f"({self._done_tokens / tokens:.0%}).",
            retry_after=self._seconds_left(tokens),
        )

    async def _embed(self) -> UsesIndex:
        """Embed the text, piece by piece."""
        info, text = self._info, built_in_sentences()
        assert info.centre is not None, "the model is loaded"
        description = IndexInfo(
            BUILT_IN, self.model, info.revision, info.layers, info.dimension, "whitespace"
        )
        writer = IndexWriter(description, info.centre.layers, text)
        try:
            for numbers in by_length(range(len(text)), text, self._piece_tokens(info)):
                await self._embed_piece(writer, numbers, info)
                self._done_tokens += sum(len(text[number]) for number in numbers)
        except Exception as error:
            _log.error("the text of the uses could not be embedded: %s", error)
            raise
        seconds = time.monotonic() - self._started_at
        what = f"{self._done_tokens:,} tokens to find uses in"
        _log.info("%s: embedded %s, in %.1f s", self.model, what, seconds)
        return writer.finish()

    def _piece_tokens(self, info: ModelInfo) -> int:
        """Return the largest piece in tokens.

        A piece fills no batch, neither the queue nor the budget of answers: others need room, too.
        """
        row_bytes = info.layers * info.dimension * ITEM_SIZES["float32"]
        batch = max(slot.budget for slot in self.engine.pool_of(self.model).slots)
        answers = self.settings.max_answer_bytes // (8 * row_bytes)
        return min(batch, self.settings.max_queue_tokens // 4, answers)

    async def _embed_piece(
        self, writer: IndexWriter, numbers: Sequence[int], info: ModelInfo
    ) -> None:
        """Compute all layers of some sentences, and write them; their bytes count as an answer."""
        sentences = [built_in_sentences()[number] for number in numbers]
        output = Output(layers=tuple(range(info.layers)), stacked=True)
        size = sum(output.size(len(each), info.dimension) for each in sentences)
        held = self.engine.answers.hold(_CLIENT, size)
        try:
            async with asyncio.timeout(_PIECE_SECONDS):
                embedded = await self.engine.embed(
                    [orjson.dumps(sentence) for sentence in sentences],
                    [len(sentence) for sentence in sentences],
                    [output] * len(sentences),
                    _PIECE_SECONDS,
                    _CLIENT,
                    self.model,
                    is_bulk=True,
                )
            await asyncio.to_thread(_write, writer, numbers, embedded)
        finally:
            held.release()

    def _seconds_left(self, tokens: int) -> float:
        if not self._done_tokens:
            return _FIRST_RETRY
        speed = self._done_tokens / (time.monotonic() - self._started_at)
        return min((tokens - self._done_tokens) / speed, _LONGEST_RETRY)


def _write(writer: IndexWriter, numbers: Sequence[int], embedded: Embedded) -> None:
    for number, vectors in zip(numbers, embedded.vectors, strict=True):
        writer.write(number, vectors.numpy())
