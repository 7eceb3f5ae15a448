"""Tagging: words and tags from CoNLL-U files, scores of every layer."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from elmo_model.checkpoints import load
from elmo_model.evaluation.score import EvaluationError
from elmo_model.evaluation.tagging import read_tagged, tagging
from tests.support.evaluation_sets import written

CONLLU = """# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tghost\t_\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""


def test_words_and_tags_are_read_from_plain_and_packed_files(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.conllu", CONLLU)
    expected = [(["do", "n't"], ["AUX", "PART"]), (["go"], ["VERB"])]
    assert list(read_tagged(plain, "upos")) == expected
    assert next(read_tagged(plain, "xpos"))[1] == ["VB", "RB"]
    packed = tmp_path / "a.conllu.xz"
    packed.write_bytes(lzma.compress(CONLLU.encode()))
    assert list(read_tagged(packed, "upos")) == expected
    with pytest.raises(EvaluationError, match=r"b\.conllu: line 1 is .*has 2 columns, expected"):
        list(read_tagged(written(tmp_path / "b.conllu", "1\tdo\n"), "upos"))


def test_the_token_layer_learns_tags_that_depend_on_the_word(tmp_path: Path, model: Path) -> None:
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
