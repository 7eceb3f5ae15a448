"""A worker that computes says so, and a language batch stops for a request of another client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import cast

import orjson
import pytest
import torch
from torch import Tensor

from elmo_model.checkpoints import load
from elmo_model.checkpoints.softmax import StoredSoftmax
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import WordVocabulary
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.heartbeat import LOADING_SECONDS, SILENT_SECONDS, Alive
from elmo_serve.selection import Output
from elmo_serve.workers.language import LanguageModel
from elmo_serve.workers.language_results import Scores, Substitutes, Wanted
from elmo_serve.workers.messages import Batch, Done
from elmo_serve.workers.model_worker import Runner
from tests.support.checkpoints import write_pair
from tests.support.clock import SteppedClock
from tests.support.workers import Messages, serve

DIMENSION = 8
WORDS = WordVocabulary(("<S>", "</S>", "<UNK>", "a", "b"))
TOP = Output(layers=(2,))
SCORE = 300  # tokens: 602 rows of both directions


@dataclass
class Stored:
    """A softmax in memory; when it is read, the messages of `parent` that come later come."""

    width: int
    parent: Messages | None = None
    words: int = len(WORDS.words)
    total: int = len(WORDS.words)
    before: list[object] = field(default_factory=list)  # all that was sent until it is read

    def read(self) -> WordSoftmax:
        if self.parent is not None:
            self.before = list(self.parent.sent)
            self.parent._messages += self.parent.later
        return WordSoftmax(
            torch.zeros(self.words, self.width), torch.zeros(self.words), WORDS, self.total
        )


def batch(number: int, tokens: int, wanted: Wanted, *, is_urgent: bool = False) -> Batch:
    text, size = orjson.dumps(["a"] * tokens), wanted.size(tokens, DIMENSION)
    block = Arena().acquire(size)
    return Batch(number, (text,), (wanted,), (0,), tokens + 2, tokens + 2, block, is_urgent)


def language(encoder: Encoder, parent: Messages | None = None) -> tuple[LanguageModel, Stored]:
    stored = Stored(encoder.config.lstm.projection, parent)
    return LanguageModel(encoder, cast(StoredSoftmax, stored)), stored


@pytest.mark.parametrize("wanted", [TOP, Scores()])
def test_a_batch_that_takes_long_says_each_second_that_it_computes(
    tmp_path: Path, wanted: Wanted
) -> None:
    """An urgent one too, which interrupts another one."""
    encoder = Encoder.of(load(write_pair(tmp_path)))
    parent = Messages(batch(1, 100, TOP), batch(2, 200, wanted, is_urgent=True), now=SteppedClock())
    runner = Runner(encoder, torch.device("cpu"), language=language(encoder)[0])
    serve(runner, parent)

    ends = [i for i, message in enumerate(parent.sent) if isinstance(message, Done)]
    urgent, bulk = (parent.sent[i] for i in ends)
    assert isinstance(urgent, Done) and isinstance(bulk, Done)
    assert (urgent.batch, bulk.batch) == (2, 1)
    for start, end in pairwise((-1, *ends)):  # a time step of each layer reads the clock
        assert parent.sent[start + 1 : end].count(Alive(SILENT_SECONDS)) > 10


def test_a_second_batch_that_waits_hides_no_heartbeat(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)))
    parent = Messages(batch(1, 100, TOP), batch(2, 100, TOP), now=SteppedClock())
    serve(Runner(encoder, torch.device("cpu")), parent)

    assert parent.sent.index(Alive(SILENT_SECONDS)) < 3
    assert parent.sent.count(Alive(SILENT_SECONDS)) > 20


def test_a_softmax_is_given_time_to_be_read(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)))
    parent = Messages(batch(1, 3, Scores()))
    model, stored = language(encoder, parent)
    serve(Runner(encoder, torch.device("cpu"), language=model), parent)

    assert stored.before[-1] == Alive(LOADING_SECONDS)


@pytest.mark.parametrize("wanted", [Scores(), Substitutes(tuple(range(64)), 2, "both")])
def test_a_request_is_computed_at_the_next_stop_of_a_language_batch(
    tmp_path: Path, wanted: Wanted
) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)))
    parent = Messages(batch(1, SCORE, wanted))
    parent.later = [batch(2, 2, TOP, is_urgent=True)]
    model, _ = language(encoder, parent)
    answers = serve(Runner(encoder, torch.device("cpu"), language=model), parent)

    assert [answer.batch for answer in answers if isinstance(answer, Done)] == [2, 1]


def test_a_language_batch_stops_after_some_rows_and_places(tmp_path: Path) -> None:
    encoder = Encoder.of(load(write_pair(tmp_path)))
    scorer = Scorer(encoder, language(encoder)[1].read())
    rows = counted(scorer)
    sentences = [["a"] * SCORE, ["b"]]
    found: Sequence[Tensor] = encoder.embed(sentences)
    most: list[list[int]] = []
    for steps in (
        scorer.surprisal(sentences, found),
        scorer.substitutes(found[0], range(100), 2, "both"),
    ):
        most.append([])
        while True:
            rows.clear()
            try:
                next(steps)
            except StopIteration:
                break
            most[-1].append(sum(rows))

    assert sum(most[0]) == 2 * SCORE + 2 + 4 and max(most[0]) <= 128
    assert sum(most[1]) == 2 * 100 and max(most[1]) <= 2 * 32  # both directions of a place


def counted(scorer: Scorer) -> list[int]:
    """Return a list that gets the number of rows of each product of a softmax."""
    rows: list[int] = []
    (product,) = scorer._products

    class Counted:
        def linear(self, vectors: Tensor) -> Tensor:
            rows.append(len(vectors))
            return product.linear(vectors)

    scorer._products = [Counted()]  # type: ignore[list-item]
    return rows
