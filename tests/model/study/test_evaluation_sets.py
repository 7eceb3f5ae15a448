"""Evaluation sets are read from a folder; a limit draws sentences."""

from pathlib import Path

import pytest

from elmo_model.study.evaluation_sets import SETS, StudyError, evaluation_sets
from tests.model.study.sets import write_ner, write_sentiment


def test_a_limit_draws_whole_sentences_by_the_seed(tmp_path: Path) -> None:
    write_ner(tmp_path)
    (ner,) = evaluation_sets(["ner"])

    whole = ner.read(tmp_path, "train", None)
    one, again, other = (ner.read(tmp_path, "train", 5, seed) for seed in (1, 1, 2))

    assert len(set(whole.groups)) == 24 and len(set(one.groups)) == 5
    assert one == again != other
    for group in set(one.groups):
        assert one.groups.count(group) == len(whole.sentences[group])


def test_text_is_tokenised(tmp_path: Path) -> None:
    write_sentiment(tmp_path)
    (sentiment,) = evaluation_sets(["sentiment"])

    assert sentiment.read(tmp_path, "test", None).sentences[0] == ("bad", "thing", "0")


def test_a_missing_file_and_an_unknown_task_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"ner/wnut17/dev\.tsv: is missing"):
        evaluation_sets(["ner"])[0].read(tmp_path, "development", None)
    with pytest.raises(StudyError, match="there is no task 'nre'; there are pos, ner, sense"):
        evaluation_sets(["nre"])
    assert [each.name for each in evaluation_sets()] == [each.name for each in SETS]
