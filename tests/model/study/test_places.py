"""The vectors of the taggers: static ones by look-up, ELMo's without boundaries."""

from pathlib import Path

import torch

from elmo_model.inference.encoder import Encoder
from elmo_model.pretrained import open_model
from elmo_model.study.evaluation_sets import evaluation_sets
from elmo_model.study.places import place_result, read_tagged
from elmo_model.study.tagger_training import TaggerOptions
from elmo_model.word_vectors.cache import open_word_vectors
from tests.model.study.sets import SENTENCES, write_ner
from tests.support.servers import SMALL


def test_a_sentence_has_its_own_vectors_and_labels(tmp_path: Path) -> None:
    write_ner(tmp_path, copies=1)
    (tmp_path / "static.txt").write_text("the 1 2\ncat 3 4\n")
    static = open_word_vectors(tmp_path / "static.txt", tmp_path)
    encoder = Encoder.of(open_model(SMALL))
    (ner,) = evaluation_sets(["ner"])

    parts = read_tagged(
        *(ner, tmp_path),
        lambda sentences: encoder.encode_whole(sentences, bounded=True).sentences(),
        *(static, None),
    )

    train = parts["train"]
    assert [list(labels) for labels in train.labels] == [labels for _, labels in SENTENCES]
    assert train.static[0].tolist() == [[1, 2], [3, 4], [0, 0]]  # The cat sat
    for (tokens, _), layers in zip(SENTENCES, train.layers, strict=True):
        torch.testing.assert_close(layers, encoder.embed([tokens])[0], rtol=0, atol=1e-5)
    found = place_result("both", parts, 0, TaggerOptions(hidden=4, rounds=1, rows=2))
    assert found["measure"] == "span F1" and found["train_sentences"] == 6
