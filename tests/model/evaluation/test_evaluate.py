"""Scores on tiny sets: read as they are meant, judged by their own rules."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints import CheckpointError, load
from elmo_model.evaluation.command import EvaluateOptions, evaluate
from elmo_model.evaluation.features import vectors_of
from elmo_model.evaluation.homographs import homographs, read_uses
from elmo_model.evaluation.score import EvaluationError, Score, table
from elmo_model.evaluation.tagging import read_conllu, tagging
from elmo_model.evaluation.word_in_context import best_threshold, read_pairs, word_in_context
from elmo_model.text_files import TextError
from tests.support.checkpoints import write_pair

CONLLU = """# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tghost\t_\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "model", cell=16, projection=8)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def uses(path: Path, *rows: tuple[str, str, int, str]) -> Path:
    lines = ["word\tsense\ttoken_index\tsentence", *("\t".join(map(str, row)) for row in rows)]
    return written(path, "\n".join(lines) + "\n")


def pairs(path: Path, *rows: tuple[str, int, int, str, str]) -> Path:
    lines = ["word\tlabel\tindex1\tindex2\tsentence1\tsentence2"]
    lines += ["w\t" + "\t".join(map(str, row)) for row in rows]
    return written(path, "\n".join(lines) + "\n")


def test_conllu_has_words_alone(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.conllu", CONLLU)
    expected = [(["do", "n't"], ["AUX", "PART"]), (["go"], ["VERB"])]
    assert list(read_conllu(plain, "upos")) == expected
    assert next(read_conllu(plain, "xpos"))[1] == ["VB", "RB"]
    packed = tmp_path / "a.conllu.xz"
    packed.write_bytes(lzma.compress(CONLLU.encode()))
    assert list(read_conllu(packed, "upos")) == expected
    with pytest.raises(EvaluationError, match="line 1 has 2 columns, expected the 10"):
        list(read_conllu(written(tmp_path / "b.conllu", "1\tdo\n"), "upos"))


def test_chosen_vectors_are_those_of_each_sentence_alone(model: Path) -> None:
    elmo = load(model)
    sentences = [["a", "long", "sentence", "here"], ["b"], ["c", "d"]]
    found = vectors_of(elmo, sentences, [[3, 0], [], [1]])
    expected = [
        elmo.embed([["a", "long", "sentence", "here"]])[0][:, [3, 0]],
        elmo.embed([["c", "d"]])[0][:, [1]],
    ]
    torch.testing.assert_close(found, torch.cat(expected, dim=1), rtol=0, atol=1e-5)


def test_tags_that_words_decide_are_learnt_from_the_token_layer(
    tmp_path: Path, model: Path
) -> None:
    generator = np.random.default_rng(0)
    words = {"cat": "NOUN", "dog": "NOUN", "runs": "VERB", "sits": "VERB", "the": "DET"}

    def sentences(count: int) -> str:
        text = ""
        for _ in range(count):
            drawn = generator.choice(list(words), size=5)
            for number, word in enumerate(drawn, 1):
                text += f"{number}\t{word}\t_\t{words[word]}\t_\t_\t_\t_\t_\t_\n"
            text += "\n"
        return text

    train = written(tmp_path / "train.conllu", sentences(40))
    test = written(tmp_path / "test.conllu", sentences(10) + "1\todd\t_\tX\t_\t_\t_\t_\t_\t_\n\n")
    score = tagging(load(model), train, test, "upos", None)
    assert score.items == 51  # and the tag that training lacks is wrong
    assert score.layers[0] == pytest.approx(100 * 50 / 51)
    assert score.baseline == pytest.approx(100 * 50 / 51)
    assert tagging(load(model), train, test, "upos", 3).items == 15


def test_senses_told_by_the_neighbour_need_context(tmp_path: Path, model: Path) -> None:
    generator = np.random.default_rng(1)

    def rows(count: int) -> list[tuple[str, str, int, str]]:
        made = []
        for number in range(count):
            sense = ("fish", "tone")[number % 2]
            near = {"fish": "river", "tone": "loud"}[sense]
            filler = " ".join(generator.choice(["a", "the", "of", "in"], size=3))
            made.append(("bass", sense, 1, f"{near} bass {filler}"))
        return made

    train = uses(tmp_path / "train.tsv", *rows(40))
    test = uses(tmp_path / "test.tsv", *rows(20), ("lead", "metal", 0, "lead"))
    centroid, probe = homographs(load(model), train, test, None)
    assert centroid.items == probe.items == 21  # a word that training lacks is wrong
    assert probe.layers[0] == pytest.approx(100 * 10 / 21)
    assert min(probe.layers[1:]) == pytest.approx(100 * 20 / 21)
    assert max(centroid.layers[1:]) > 90
    assert centroid.baseline == pytest.approx(100 * 10 / 21)


def test_the_threshold_parts_the_pairs_best() -> None:
    cosines = np.array([0.9, 0.1, 0.8, 0.3, 0.2, 0.25])
    same = np.array([True, False, True, False, True, False])
    bound = best_threshold(cosines, same)
    assert 0.3 < bound < 0.8
    assert best_threshold(cosines, np.ones(6, dtype=bool)) == -np.inf
    assert best_threshold(cosines, np.zeros(6, dtype=bool)) == np.inf
    # equal cosines cannot be parted
    bound = best_threshold(np.array([0.5, 0.5, 0.5]), np.array([True, False, False]))
    assert bound == np.inf


def test_the_same_word_in_other_company_is_told_by_context(tmp_path: Path, model: Path) -> None:
    same = ("T", 1, 1, "loud bass a", "loud bass a")
    other = ("F", 1, 1, "river bass a", "loud bass a")
    path = pairs(tmp_path / "wic.tsv", *[same, same, other, other] * 5)
    score = word_in_context(load(model), path, None)
    assert score.items == 20 and score.baseline == 50
    assert score.layers[0] <= 50
    assert max(score.layers[1:]) == 100
    assert word_in_context(load(model), path, 4).items == 4


def test_sets_that_contradict_themselves_are_named(tmp_path: Path, model: Path) -> None:
    beyond = uses(tmp_path / "beyond.tsv", ("w", "s", 2, "two tokens"))
    with pytest.raises(EvaluationError, match=r"beyond\.tsv: token '2' of a sentence of 2"):
        read_uses(beyond)
    with pytest.raises(EvaluationError, match="has no column label, found word, sense"):
        read_pairs(beyond)
    with pytest.raises(EvaluationError, match="label is 'yes', expected T or F"):
        read_pairs(pairs(tmp_path / "label.tsv", ("yes", 0, 0, "a", "a")))
    with pytest.raises(EvaluationError, match="line 2 has 1 columns, expected 4"):
        read_uses(written(tmp_path / "cut.tsv", "word\tsense\ttoken_index\tsentence\nlead\n"))
    empty = pairs(tmp_path / "empty.tsv")
    with pytest.raises(EvaluationError, match="holds 0 pairs"):
        evaluate(EvaluateOptions(str(model), wic=empty, device="cpu"), lambda _: None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, "no test set is given"),
        ({"pos_train": Path("a")}, "--pos-train and --pos-test are given together"),
        ({"wic": Path("a"), "tags": "ner"}, "--tags is 'ner', expected upos or xpos"),
        ({"wic": Path("nowhere")}, "nowhere: cannot be read"),
        ({"wic": Path("a"), "model": "nothing"}, "nothing: does not exist"),
    ],
)
def test_what_cannot_be_is_named(model: Path, changed: dict[str, object], message: str) -> None:
    given = {"model": str(model), "device": "cpu", **changed}
    with pytest.raises((CheckpointError, EvaluationError, TextError), match=message):
        evaluate(EvaluateOptions(**given), lambda _: None)  # type: ignore[arg-type]


def test_one_table_and_one_object_say_the_same(tmp_path: Path, model: Path) -> None:
    path = pairs(tmp_path / "wic.tsv", *[("T", 0, 0, "a", "a"), ("F", 0, 0, "a", "b")] * 4)
    options = EvaluateOptions(str(model), wic=path, device="cpu")
    steps: list[str] = []
    text = evaluate(options, steps.append)
    assert "token layer" in text and "100.0*" in text and len(steps) == 2
    said = json.loads(evaluate(EvaluateOptions(str(model), wic=path, as_json=True), steps.append))
    assert said["scores"][0]["layers"] == [100.0, 100.0, 100.0]
    assert said["model"]["format"] == "allennlp"


def test_the_best_layer_is_marked() -> None:
    lines = table([Score("one", (1.0, 3.0, 2.0), 1000, 0.5, "guess")]).splitlines()
    assert "3.0*" in lines[1] and lines[1].count("*") == 1
    assert "1,000" in lines[1] and lines[1].endswith("0.5 (guess)")
