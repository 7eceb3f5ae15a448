"""Clients of all kinds of requests, which compare every vector with one computed before."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from benchmarks.faults.injections import SLOW, UNREACHABLE, Environment
from benchmarks.faults.replicas import RAISES
from elmo_serve.http.media_types import ENCODERS
from tests.support.answers import Answers, Asked, random_options

LATE_SECONDS = 20.0
"""Seconds after its deadline at which a request without an answer counts as hung."""

NOT_FINITE = "~"
"""The word whose vectors are not finite."""

_DEADLINE_SECONDS = 50.0
_BULK = 1_000  # sentences
_SHORT_TOKENS, _BULK_TOKENS = 8, 25  # of the longest sentence in a short and in a bulk request
_PAUSE_SECONDS = 0.3
_GRACE_SECONDS = 35.0  # for which a fault is still felt after its end: a helper hangs for 30
_KINDS = {
    "short": 30,
    "same": 10,
    "text": 15,
    "page": 24,
    "bulk": 2,
    "hurry": 8,
    "leave": 6,
    "bad word": 5,
}


@dataclass(slots=True)
class Outcomes:
    """What became of the requests of all clients."""

    asked: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind and outcome
    sentences: int = 0
    wrong: int = 0
    worst: float = 0.0  # largest difference, in multiples of the tolerance
    faults: list[str] = field(default_factory=list)

    def note(self, kind: str, outcome: str, is_allowed: bool, what: object = "") -> None:
        """Count an outcome; one that is not allowed is a fault."""
        self.outcomes[kind, outcome] += 1
        if not is_allowed:
            self.faults.append(f"{kind}: {outcome} {what}"[:400])


class Client:
    """Sends one request after another, of any kind, and judges its response."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        urls: list[str],
        answers: Answers,
        on: Environment,
        found: Outcomes,
        source: random.Random,
    ) -> None:
        self._http = http
        self._urls = urls
        self._answers = answers
        self._on = on
        self._found = found
        self._source = source
        lengths = [len(sentence) for sentence in answers.sentences]
        self._short = [i for i, length in enumerate(lengths) if length <= _SHORT_TOKENS]
        self._middling = [i for i, length in enumerate(lengths) if length <= _BULK_TOKENS]

    async def run(self, is_over: asyncio.Event) -> None:
        """Send requests until it is over."""
        while not is_over.is_set():
            await asyncio.sleep(self._source.uniform(0, 2 * _PAUSE_SECONDS))
            await self._ask(self._source.choices(list(_KINDS), list(_KINDS.values()))[0])

    async def _ask(self, kind: str) -> None:
        asked = self._make(kind)
        seconds = _DEADLINE_SECONDS
        if kind == "hurry":
            seconds = self._source.uniform(0.01, 0.5)
        self._found.asked[kind] += 1
        work = asyncio.ensure_future(self._send(kind, asked, seconds))
        if kind == "leave":
            await asyncio.wait([work], timeout=self._source.uniform(0, 0.5))
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        else:
            await work

    def _make(self, kind: str) -> Asked:
        source = self._source
        if kind == "same":  # by many clients at once, so that they share a job
            return Asked((self._middling[-1],), {"layers": "top"})
        options = random_options(source, self._answers.layer_count)
        if kind == "short":
            return Asked((source.choice(self._short),), options)
        if kind == "bulk" or (kind == "leave" and source.random() < 0.3):
            count = source.randint(_BULK, 2 * _BULK)
            return Asked(tuple(source.choices(self._middling, k=count)), options)
        every = range(len(self._answers.sentences))
        return Asked(tuple(source.choices(every, k=source.randint(1, 40))), options)

    async def _send(self, kind: str, asked: Asked, seconds: float) -> None:
        media = self._source.choice(list(ENCODERS))
        texts = [self._answers.sentences[index] for index in asked.sentences]
        if kind == "bad word":
            place = self._source.randrange(len(texts) + 1)
            texts.insert(place, ["x", self._source.choice([RAISES, NOT_FINITE])])
        body: dict[str, Any] = {"sentences": texts}
        if kind == "text":
            body = {"text": list(map(" ".join, texts)), "tokenizer": "whitespace"}
        content = orjson.dumps(body | asked.options)
        headers = {
            "accept": media,
            "content-type": "application/json",
            "x-request-timeout": f"{seconds:.3f}",
        }
        url = self._source.choice(self._urls) + "/embed"
        start = time.monotonic()
        try:
            async with asyncio.timeout(seconds + LATE_SECONDS):
                response = await self._http.post(url, content=content, headers=headers)
        except (TimeoutError, httpx.HTTPError) as error:
            is_hung = isinstance(error, TimeoutError)
            felt = {"link stalls"} if is_hung else UNREACHABLE
            outcome = "hung" if is_hung else type(error).__name__
            self._found.note(kind, outcome, bool(felt & self._felt(start)), repr(error))
            return
        await self._judge(kind, asked, media, response, start)

    def _felt(self, start: float) -> set[str]:
        """Return the faults that a request since `start` may feel."""
        return self._on.during(start - _GRACE_SECONDS, time.monotonic())

    async def _judge(
        self, kind: str, asked: Asked, media: str, response: httpx.Response, start: float
    ) -> None:
        status = response.status_code
        is_allowed = True
        if status == 200 and kind != "bad word":
            is_allowed = await self._is_right(asked, media, response.content)
        elif status in (429, 503) and "retry-after" in response.headers:
            await asyncio.sleep(min(float(response.headers["retry-after"]), 3.0))
        elif status in (413, 504) and (kind == "hurry" or len(asked.sentences) >= _BULK):
            pass  # there was too little time
        elif status == 500 and kind == "bad word":
            is_allowed = "pointer" in response.text
        elif status in (502, 503, 504):  # of the proxy, or late
            is_allowed = bool(self._felt(start) & (SLOW if status == 504 else UNREACHABLE))
        else:
            is_allowed = False
        self._found.note(kind, str(status), is_allowed, response.text[:300])

    async def _is_right(self, asked: Asked, media: str, content: bytes) -> bool:
        found = self._found
        worst = await asyncio.to_thread(self._answers.furthest, asked, media, content)
        found.sentences += len(asked.sentences)
        found.worst = max(found.worst, worst)
        found.wrong += worst > 1
        return worst <= 1
