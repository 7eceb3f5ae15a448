"""The load test sees every wrong answer; a few seconds of it find none."""

import asyncio
import random

import numpy as np
import pytest

from benchmarks.load import storm
from tests.support.answers import TASK, Answers, sentences
from tests.support.servers import SMALL, Running


@pytest.fixture(scope="module")
def answers() -> Answers:
    return Answers(str(SMALL), sentences(None, 60, random.Random(3)))


def test_every_answer_under_load_equals_the_networks_own(server: Running, answers: Answers) -> None:
    outcome = asyncio.run(storm(server.url, answers, clients=20, seconds=3))

    assert outcome.answered >= 20
    assert not (outcome.is_bad or outcome.late), outcome.faults
    assert 0 < outcome.worst <= 1


def test_clients_that_leave_disturb_no_other_client(server: Running, answers: Answers) -> None:
    outcome = asyncio.run(storm(server.url, answers, clients=20, seconds=3, leave=0.5, seed=1))

    assert outcome.left > 0
    assert not (outcome.is_bad or outcome.late), outcome.faults


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": "top"}, {"layers": [2, 0]}, {"task": "load"}, {"mix": TASK}],
    ids=["all", "top", "list", "task", "mix"],
)
def test_a_wrong_answer_would_be_seen(answers: Answers, options: dict[str, object]) -> None:
    index = max(range(60), key=lambda i: len(answers.sentences[i]))
    right = answers.expected(index, options).astype(np.float32)
    assert answers.difference(right, index, options) < 0.1

    slightly = right.copy()
    slightly.flat[right.size // 2] += 1e-4 * np.abs(right).max()
    assert answers.difference(slightly, index, options) > 1
    assert answers.difference(right[..., ::-1], index, options) > 1
    assert answers.difference(right[..., :-1], index, options) > 1
    assert answers.difference(right.astype(np.float16), index, options) > 1
    assert answers.difference(np.full_like(right, np.nan), index, options) > 1


def test_sentences_have_every_length() -> None:
    made = sentences(None, 500, random.Random(0))
    lengths = {len(sentence) for sentence in made}

    assert len(set(map(tuple, made))) == 500
    assert min(lengths) == 0
    assert max(lengths) <= 120
    assert len(lengths) > 80
