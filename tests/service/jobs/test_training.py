"""A fit on vectors in a memory map: messages on the way, files at the end."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_serve.jobs.bodies import read_fit
from elmo_serve.jobs.plan import (
    FitLimits,
    FitMessage,
    Fits,
    FitSource,
    NotTrained,
    Scored,
    Train,
    Trained,
)
from elmo_serve.jobs.training import train
from elmo_serve.workers.shared_memory import Segment
from tests.support.fits import body

SOURCE = FitSource(False, FitLimits(1_000, 10_000, 100), "whitespace", "en")


def run(sent: dict[str, Any], folder: Path) -> tuple[Any, list[FitMessage]]:
    """Fit vectors whose layer 1 alone tells the first label from the others."""
    text = json.dumps(sent).encode()
    request = read_fit(text, SOURCE)
    offsets = request.row_offsets
    labels = np.zeros(offsets[-1])
    first = request.train.labels[0]
    for examples in filter(None, (request.train, request.test)):
        for places, label in zip(examples.places, examples.labels, strict=True):
            labels[request.row_of(offsets, places[0])] = label == first
    vectors = np.random.default_rng(0).standard_normal((len(labels), 3, 4)).astype(np.float32)
    vectors[:, 1, 0] = 5 * labels
    task = Train(
        name="mine",
        request=request.plan().request,
        vectors=Segment(1, vectors.nbytes, -1, memoryview(b"")),
        shape=(len(labels), 3, 4),
        model="fake",
        revision="0",
        format="fake",
        folder=str(folder),
    )
    messages: list[FitMessage] = []
    return train(task, vectors.reshape(-1).view(np.uint8), messages.append), messages


@pytest.mark.parametrize("kind", ["token", "sentence", "pair"])
def test_a_task_is_learned_and_every_fit_is_reported(tmp_path: Path, kind: str) -> None:
    found, messages = run(body(kind, seeds=2), tmp_path / "job")

    assert isinstance(found, Trained)
    assert (found.scored["scored_on"], found.scored["measure"]) == ("test", "accuracy")
    assert [m.done for m in messages if isinstance(m, Fits)] == list(range(1, 13))
    assert {m.total for m in messages if isinstance(m, Fits)} == {12}
    scored = {m.name: m.scores for m in messages if isinstance(m, Scored)}
    assert list(scored) == ["learned", "average", "sum", "layer 0", "layer 1", "layer 2"]
    assert scored["layer 1"]["mean"] > scored["layer 0"]["mean"]
    if kind != "pair":
        assert max(scored["learned"]["weights"]) == scored["learned"]["weights"][1]
    assert sum(scored["learned"]["weights"]) == pytest.approx(1)
    files = {path.name for path in (tmp_path / "job").iterdir()}
    assert files == {"head.safetensors", "report.json"}


def test_what_cannot_be_learned_is_said_in_one_line(tmp_path: Path) -> None:
    examples = [{"tokens": ["a"], "label": "x"}] * 3 + [{"tokens": ["b"], "label": "y"}]
    sent = {"kind": "sentence", "examples": examples, "validation": 0.5, "seeds": 8}

    found, _ = run(sent, tmp_path / "job")

    assert isinstance(found, NotTrained)
    assert "expected two labels or more" in found.reason
    assert not (tmp_path / "job").exists()


def test_files_that_cannot_be_written_fail_the_fit(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("in the way")

    found, _ = run(body(), tmp_path / "job")

    assert isinstance(found, NotTrained)
