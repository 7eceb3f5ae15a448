"""`python -m benchmarks.study` on small sets: results part by part, then tables and pictures."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from benchmarks.study.__main__ import study
from benchmarks.study.places import read_tagged
from benchmarks.study.results import Part, Results
from benchmarks.study.sets import StudyError, evaluation_sets
from benchmarks.study.tagger_training import TaggerOptions
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.tasks.features import encode_by
from elmo_model.tasks.fitter import FitOptions
from elmo_model.word_vectors.look_up import WordVectors
from elmo_model.word_vectors.store import store_folder
from tests.benchmarks.study.sets import SENTENCES, write_ner, write_sentiment
from tests.support.servers import SMALL


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_ner(folder)
    write_sentiment(folder)
    (folder / "static.txt").write_text("the 1 2\ncat 3 4\n")
    return folder


def run(data: Path, out: Path, **others: object) -> str:
    options = {"model": str(SMALL), "word_vectors": data / "static.txt", "tasks": None, "seeds": 1}
    limits = {"limit": 20, "tagger_limit": None}
    return study(
        Namespace(data=data, out=out, **{**options, **limits, **others}),
        FitOptions(rounds=1),
        TaggerOptions(hidden=4, rounds=1, rows=8),
    )


@pytest.mark.long
def test_every_part_has_a_file_and_an_interrupted_study_continues_with_the_next(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path))
    out = tmp_path / "out"

    tables = run(data, out, tasks=["ner", "sentiment"])

    parts = {path.stem for path in out.glob("*.json")}
    taggers = {f"tagger-ner-{place}-0" for place in ("none", "input", "output", "both")}
    assert parts == {"layers-ner", "layers-sentiment", *taggers}
    assert "| ner (span F1) |" in tables and "| sentiment (accuracy) |" in tables
    assert "word vectors alone" in tables
    pictures = {path.name for path in out.glob("*.svg")}
    assert pictures == {"weightings.svg", "layers.svg", "penalty.svg", "places.svg"}
    assert set(json.loads((out / "tagger-ner-both-0.json").read_text())["weights"]) == {
        *("input", "output")
    }
    found = json.loads((out / "layers-sentiment.json").read_text())
    learned = {"learned, lambda 0.001", "learned, lambda 1"}
    fixed = {"average", "sum", *(f"layer {n}" for n in range(3))}
    assert set(found["mixtures"]) == learned | fixed and found["train_examples"] == 20
    (strong,) = found["mixtures"]["learned, lambda 1"]["weights"]
    assert strong == pytest.approx([1 / 3] * 3, abs=0.05)

    (out / "tagger-ner-both-0.json").unlink()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    assert run(data, out, tasks=["ner", "sentiment"]) == tables
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_part_is_made_once_and_one_of_other_settings_is_refused(tmp_path: Path) -> None:
    made = []

    def make() -> Part:
        made.append(1)
        return {"score": len(made)}

    first = Results(tmp_path / "new", {"seeds": 3}).ensure("part", make)

    assert first == Results(tmp_path / "new", {"seeds": 3}).ensure("part", make)
    assert made == [1] and first["score"] == 1
    with pytest.raises(StudyError, match=r"part\.json: is of the settings .*'seeds': 3.*folder"):
        Results(tmp_path / "new", {"seeds": 2}).ensure("part", make)


def test_a_limit_draws_whole_sentences_by_the_seed(data: Path) -> None:
    (ner,) = evaluation_sets(["ner"])

    whole = ner.read(data, "train", None)
    one, again, other = (ner.read(data, "train", 5, seed) for seed in (1, 1, 2))

    assert len(set(whole.groups)) == 24 and len(set(one.groups)) == 5
    assert one == again != other
    for group in set(one.groups):
        assert one.groups.count(group) == len(whole.sentences[group])


def test_a_missing_file_and_an_unknown_task_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"ner/wnut17/dev\.tsv: is missing"):
        evaluation_sets(["ner"])[0].read(tmp_path, "development", None)
    with pytest.raises(StudyError, match="there is no task 'nre'; there are pos, ner, sense"):
        evaluation_sets(["nre"])


def test_a_sentence_has_its_own_vectors_and_labels(data: Path, tmp_path: Path) -> None:
    static = WordVectors.open(store_folder(data / "static.txt", tmp_path))
    encoder = Encoder.of(open_model(SMALL))
    (ner,) = evaluation_sets(["ner"])

    parts = read_tagged(ner, data, encode_by(encoder), static, None)

    train = parts["train"]
    assert [list(labels) for labels in train.labels[:6]] == [labels for _, labels in SENTENCES]
    assert train.static[0].tolist() == [[1, 2], [3, 4], [0, 0]]  # The cat sat
    for (tokens, _), layers in zip(SENTENCES, train.layers, strict=False):
        torch.testing.assert_close(layers, encoder.embed([tokens])[0], rtol=0, atol=1e-5)
