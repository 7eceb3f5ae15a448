"""The requests of a load test: bodies of real words, and the comparison of their responses."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo_client import Client
from elmo_model.errors import ElmoError, counted
from elmo_model.inference import centre
from elmo_model.text.files import numbered_lines
from elmo_serve.http.media_types import ENCODERS
from elmo_serve.load_test.sender import Request
from elmo_serve.output import Dtype, Output, mixture, select

MEDIAN_TOKENS = 20
"""Median of the lengths of made sentences, in tokens, without boundaries."""

SPREAD = 0.6
"""Standard deviation of the logarithm of the length: 5 % of the sentences are longer than 53."""

LONGEST = 120
"""Longest made sentence, in tokens."""

Sentence = list[str]
Array = NDArray[Any]

TOLERANCES: dict[Dtype, float] = {"float32": 1e-5, "float16": 1e-3}
"""Largest difference by the dtype of the vectors, relative to the largest number of a sentence."""

KEPT_BYTES = 256 << 20
"""Bytes of vectors that are kept for comparison. With a higher value more requests are compared."""


class WorkloadError(ElmoError):
    """No requests can be made. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of a load test.

    `fields` are the members of each body beside its sentences. A request has `sentences` sentences,
    or `tokens` tokens where that is given. The sentences are those of `text`, or made from `seed`.
    """

    media_type: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    sentences: int = 8
    tokens: int | None = None
    text: Path | None = None
    seed: int = 1

    def requests(self, client: Client, count: int, tolerance: float | None) -> list[Request]:
        """Return `count` requests for a server. Raises ElmoError for options and text."""
        info = client.info()
        output = self._output(client)
        allowed = tolerance or TOLERANCES[output.dtype]
        checker = Checker(self.media_type, output, info["dimension"], allowed)
        next_sentence = self._source(info["limits"]["max_sentence_tokens"])
        most = info["limits"]["max_request_sentences"]
        compares: dict[bytes, Callable[[bytes], float | None]] = {}
        requests = []
        for _ in range(count):
            sentences = self._sentences(next_sentence)
            if len(sentences) > most:
                raise WorkloadError(
                    f"a request has {len(sentences)} sentences; the server takes {most}"
                )
            lengths = list(map(len, sentences))
            content = orjson.dumps({"sentences": sentences, **self.fields})
            compare = compares.setdefault(content, checker.of(lengths))
            requests.append(Request(content, sum(lengths), self.media_type, compare))
        return requests

    @property
    def size(self) -> str:
        """The size of a request in words."""
        count, noun = (
            (self.sentences, "sentence") if self.tokens is None else (self.tokens, "token")
        )
        return counted(count, noun)

    def __str__(self) -> str:
        """Return the vectors in words."""
        fields = dict(self.fields) if "task" in self.fields else {"layers": "all", **self.fields}
        named = [f"{name} {value}" for name, value in fields.items() if name != "model"]
        return ", ".join([*named, self.media_type])

    def _output(self, client: Client) -> Output:
        """Return the output that the server's model computes."""
        given = {name: self.fields[name] for name in _SHAPING if name in self.fields}
        if "task" in self.fields:
            name = self.fields["task"]
            task = next((task for task in client.tasks() if task.name == name), None)
            if task is None:
                raise WorkloadError(f"the server has no task {name}")
            return replace(mixture(task, client.info()["layers"]), **given)
        return select(self.fields.get("layers", "all"), client.info()["layers"], **given)

    def _source(self, longest: int) -> Callable[[], Sentence]:
        if self.text is None:
            return made_sentences(random.Random(self.seed), longest)
        return sentences_of(self.text, longest)

    def _sentences(self, next_sentence: Callable[[], Sentence]) -> list[Sentence]:
        """Return the sentences of a request; the last one of N tokens is cut."""
        if self.tokens is None:
            return [next_sentence() for _ in range(self.sentences)]
        found, left = [], self.tokens
        while left:
            found.append(next_sentence()[:left])
            left -= len(found[-1])
        return found


_SHAPING = ("pooling", "dtype", "normalize")


def made_sentences(source: random.Random, longest: int) -> Callable[[], Sentence]:
    """Return a function that makes a sentence, of at most `longest` tokens.

    The length is log-normal: median 20, sigma 0.6, cut at 120; the mean is 24. The words are those
    of the text that comes with the program, in its frequencies, so a server knows all of them soon.
    """
    words = [word for sentence in centre.sentences() for word in sentence]
    longest = min(LONGEST, longest)

    def make() -> Sentence:
        length = round(MEDIAN_TOKENS * source.lognormvariate(0.0, SPREAD))
        return source.choices(words, k=min(max(length, 1), longest))

    return make


def sentences_of(text: Path, longest: int) -> Callable[[], Sentence]:
    """Return a function that returns the next sentence of a text: a line of tokens between spaces.

    It starts again after the last one. Longer sentences are cut after `longest` tokens.
    Raises TextError where the text cannot be read, WorkloadError where it holds no token.
    """
    lines = [line for _, _, line in numbered_lines(text)]
    sentences = [words[:longest] for line in lines if (words := line.split())]
    if not sentences:
        raise WorkloadError(f"{text}: holds no token")
    return cycle(sentences).__next__


class Checker:
    """Makes the function of each request that compares its responses.

    The reference is the first response that has the right shapes. `kept_bytes` bounds all
    references together. `dimension` is the width 2P of the model.
    """

    def __init__(
        self,
        media_type: str,
        output: Output,
        dimension: int,
        tolerance: float,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._decode = ENCODERS[media_type].decode
        self._output = output
        self._dimension = dimension
        self._tolerance = tolerance
        self._left = kept_bytes

    def of(self, lengths: Sequence[int]) -> Callable[[bytes], float | None]:
        """Return the function for a request whose sentences have these numbers of tokens.

        It returns the largest difference of a response in tolerances: above 1 it is wrong. The
        difference is infinite where the response cannot be read, or has other shapes or numbers
        that are not finite. None: there was nothing to compare it with.
        """
        shapes = [self._output.shape(length, self._dimension) for length in lengths]
        return partial(self._difference, shapes, [])

    def _difference(
        self, shapes: list[tuple[int, ...]], reference: list[Array], content: bytes
    ) -> float | None:
        try:
            found = self._decode(content)
        except Exception:  # each format has errors of its own; the response counts as wrong
            return math.inf
        if [array.shape for array in found] != shapes:
            return math.inf
        if not all(np.isfinite(array).all() for array in found):
            return math.inf
        if not reference:
            self._keep(found, reference)
            return None
        return max(map(self._furthest, found, reference), default=0.0)

    def _keep(self, found: Sequence[Array], reference: list[Array]) -> None:
        size = 4 * sum(array.size for array in found)
        if size <= self._left:
            self._left -= size
            reference[:] = [array.astype(np.float32) for array in found]

    def _furthest(self, found: Array, expected: Array) -> float:
        if not found.size:
            return 0.0
        furthest = float(np.abs(found.astype(np.float32) - expected).max())
        scale = float(np.abs(expected).max())
        if not scale:  # an empty sentence pools to zeros
            return math.inf if furthest else 0.0
        return furthest / (self._tolerance * scale)
