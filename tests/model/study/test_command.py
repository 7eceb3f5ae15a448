"""`elmo study` on small sets: results part by part, then tables and pictures."""

import json
from pathlib import Path

import pytest

from elmo_model.fitting.fitter import FitOptions
from elmo_model.study.command import StudyCommand, study
from elmo_model.study.evaluation_sets import StudyError
from elmo_model.study.tagger_training import TaggerOptions
from tests.model.study.sets import write_ner, write_sentiment
from tests.support.servers import SMALL

TAGGER = TaggerOptions(hidden=4, rounds=1, rows=8)
FITS = FitOptions(rounds=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_ner(folder)
    write_sentiment(folder)
    (folder / "static.txt").write_text("the 1 2\ncat 3 4\n")
    return folder


def command(data: Path, out: Path, *tasks: str, seeds: int = 1) -> StudyCommand:
    return StudyCommand(
        *(data, out, str(SMALL), out, data / "static.txt", tasks),
        seeds=seeds,
        tagger=TAGGER,
        fits=FITS,
    )


def test_every_part_has_a_file_and_the_tables_are_of_all_parts(data: Path, tmp_path: Path) -> None:
    steps: list[str] = []

    tables = study(command(data, tmp_path, "ner", "sentiment"), steps.append)

    parts = {path.stem for path in tmp_path.glob("*.json")}
    assert parts == {
        *("layers-ner", "layers-sentiment"),
        *(f"tagger-ner-{place}-0" for place in ("none", "input", "output", "both")),
    }
    assert "| ner (span F1) |" in tables and "| sentiment (accuracy) |" in tables
    assert "word vectors alone" in tables
    assert (tmp_path / "tables.md").read_text() == tables
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        *("weightings.svg", "layers.svg", "penalty.svg", "places.svg"),
    }
    assert "Tagger: ner, both, seed 0" in steps


def test_an_interrupted_study_continues_with_the_next_part(data: Path, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def interrupt(step: str) -> None:
        if step == "Tagger: ner, output, seed 0":
            raise StoppedError

    with pytest.raises(StoppedError):
        study(command(data, tmp_path, "ner"), interrupt)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}

    study(command(data, tmp_path, "ner"))

    assert len(kept) == 3  # the layers, no ELMo, ELMo at the input
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    both = json.loads((tmp_path / "tagger-ner-both-0.json").read_text())
    assert set(both["weights"]) == {"input", "output"}


def test_a_study_without_seeds_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="seeds is 0"):
        study(command(data, tmp_path, "ner", seeds=0))
