"""Probabilities of the language model are those of bilm-tf's own graph, and sum to 1."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_model.checkpoints.softmax import ENDING, open_file, save
from elmo_model.inference import scorer as scorer_module
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.inference.steps import whole
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.softmax import WordSoftmax
from elmo_model.text.alphabets import WordVocabulary
from elmo_model.training.perplexity import per_token
from tests.support import training as golden

SENTENCES = [*golden.sentences("heldout.txt")[:12], [], ["of"], ["unheard-of", "", "the"]]


@pytest.fixture
def softmax() -> WordSoftmax:
    stored = golden.arrays("char/weights_init")
    weight, bias = (torch.from_numpy(stored[f"lm/softmax/{part}"]) for part in "Wb")
    words = WordVocabulary(golden.vocabulary().words)
    return WordSoftmax(weight, bias, words, len(weight))


def score(
    elmo: ElmoNetwork, softmax: WordSoftmax, sentences: list[list[str]]
) -> list[torch.Tensor]:
    encoder = Encoder.of(elmo)
    return whole(Scorer(encoder, softmax).surprisal(sentences, encoder.embed(sentences)))


def test_the_losses_of_the_first_batch_are_those_of_bilm_tfs_graph(
    tmp_path: Path, softmax: WordSoftmax
) -> None:
    # The batch is rows of running text from zero state: its top layer comes from the network, and
    # its words are scored.
    model, batch = golden.first_model(tmp_path).eval(), golden.batch(0)
    scorer = Scorer(Encoder.of(model.elmo), softmax)
    losses = []
    with torch.inference_mode():
        vectors = model.char_cnn(batch.characters[0])
        for direction, stack in zip(
            batch.directions,
            (model.elmo.bilm.forward_stack, model.elmo.bilm.backward_stack),
            strict=True,
        ):
            (h, c), _ = model.zero_state(golden.ROWS).directions()
            steps, rows = direction.index.shape
            layers, _, _ = stack(vectors[direction.index.flatten()], (rows,) * steps, h, c)
            bits = whole(scorer._bits(layers[-1], direction.targets.flatten()))
            losses.append(bits.mean().item() * math.log(2))
    expected = golden.log()["steps"][0]
    assert losses == pytest.approx([expected["forward"], expected["backward"]], abs=1e-5)


def test_the_mean_is_the_perplexity_of_the_training_graph(
    tmp_path: Path, softmax: WordSoftmax
) -> None:
    model = golden.first_model(tmp_path)
    found = torch.cat(score(model.elmo, softmax, SENTENCES), dim=1)
    served = per_token(model, golden.vocabulary(), SENTENCES)
    assert found.shape[1] == served.predictions
    forward, backward = (found[:2].double().mean(dim=1) * math.log(2)).tolist()
    assert forward == pytest.approx(served.forward_loss, abs=1e-5)
    assert backward == pytest.approx(served.backward_loss, abs=1e-5)


def test_a_sentence_has_the_surprisal_that_it_has_alone(
    tmp_path: Path, softmax: WordSoftmax, monkeypatch: pytest.MonkeyPatch
) -> None:
    elmo = golden.first_model(tmp_path).elmo
    together = score(elmo, softmax, SENTENCES)
    # blocks of a few words and a few rows
    monkeypatch.setattr(scorer_module, "_WORDS", 7)
    monkeypatch.setattr(scorer_module, "_STEP_ROWS", 5)
    for sentence, found in zip(SENTENCES, together, strict=True):
        assert found.shape == (3, len(sentence) + 1)
        (alone,) = score(elmo, softmax, [sentence])
        torch.testing.assert_close(alone, found, rtol=1e-5, atol=1e-5)
    assert together[-1][2].tolist() == [1, 1, 0, 0]  # of `unheard-of`, the empty word, `the`, end
    assert score(elmo, softmax, []) == []


def test_bytes_are_scored_as_the_floats_that_they_stand_for(
    tmp_path: Path, softmax: WordSoftmax
) -> None:
    path = tmp_path / f"a{ENDING}"
    save(softmax, path, "0123456789ab")
    stored = open_file(path).read()
    floats = replace(stored, weight=stored.rows(slice(None)), scale=None)
    elmo = golden.first_model(tmp_path).elmo
    assert stored.weight.dtype == torch.int8
    for found, expected in zip(
        score(elmo, stored, SENTENCES), score(elmo, floats, SENTENCES), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)  # vectors have 15 bits


@pytest.mark.parametrize("factor", [1e3, -1e3])
def test_sums_beyond_the_range_of_float32_are_those_of_logarithms(
    tmp_path: Path, softmax: WordSoftmax, factor: float
) -> None:
    elmo, far = golden.first_model(tmp_path).elmo, replace(softmax, weight=softmax.weight * factor)
    (layers,) = found = Encoder.of(elmo).embed([["the", "of"]])
    (bits,) = whole(Scorer(Encoder.of(elmo), far).surprisal([["the", "of"]], found))
    top = layers[-1, 0, : far.weight.shape[1]].double()  # predicts `of`
    logits = far.weight.double() @ top + far.bias.double()
    assert logits.abs().max() > 100
    expected = -logits.log_softmax(0)[golden.vocabulary().words.index("of")] / math.log(2)
    assert bits[0, 1].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_probabilities_sum_to_one_and_are_those_of_the_surprisal(
    tmp_path: Path, softmax: WordSoftmax, direction: scorer_module.Direction
) -> None:
    elmo, sentence = golden.first_model(tmp_path).elmo, ["the", "of", "the"]
    encoder = Encoder.of(elmo)
    scorer = Scorer(encoder, softmax)
    (layers,) = found = encoder.embed([sentence])
    (bits,) = whole(scorer.surprisal([sentence], found))
    ahead, behind = scorer._around(layers[-1])
    logs = scorer._log_probabilities(ahead, behind, direction)
    torch.testing.assert_close(logs.exp().sum(dim=1), torch.ones(4), rtol=1e-5, atol=0)

    places, most = [1, 2], len(softmax.weight)
    lists = whole(scorer.substitutes(layers, places, most, direction))
    for place, words in zip(places, lists, strict=True):
        assert len(words) == most - 3
        assert not {"<S>", "</S>", "<UNK>"} & {str(each["word"]) for each in words}
        values = [float(each["probability"]) for each in words]
        assert values == sorted(values, reverse=True)
        of = {each["word"]: float(each["probability"]) for each in words}
        own = of[sentence[place]]
        if direction != "both":
            row = ("forward", "backward").index(direction)
            assert -math.log2(own) == pytest.approx(bits[row, place].item(), abs=1e-4)
    (best,) = whole(scorer.substitutes(layers, [1], 2, direction))
    assert [each["word"] for each in best] == [each["word"] for each in lists[0][:2]]
    # One row is another product than two: the last bits differ.
    for two, all_of_them in zip(best, lists[0], strict=False):
        assert two["probability"] == pytest.approx(all_of_them["probability"], rel=1e-6)


def test_both_directions_are_divided_by_the_share_of_a_word_and_normalised(
    tmp_path: Path, softmax: WordSoftmax
) -> None:
    encoder = Encoder.of(golden.first_model(tmp_path).elmo)
    scorer = Scorer(encoder, softmax)
    ahead, behind = scorer._around(encoder.encode_whole([["of", "the"]]).layers[-1])
    one, other = (
        scorer._log_probabilities(ahead, behind, name).exp() for name in ("forward", "backward")
    )
    words = golden.vocabulary().words
    ranks = np.cumsum([word not in ("<S>", "</S>", "<UNK>") for word in words])
    product = one * other * torch.from_numpy(ranks + 2.7).float()
    product[:, [words.index(word) for word in ("<S>", "</S>", "<UNK>")]] = 0
    expected = product / product.sum(dim=1, keepdim=True)
    found = scorer._log_probabilities(ahead, behind, "both").exp()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-8)


def test_a_callers_autocast_changes_no_number(tmp_path: Path, softmax: WordSoftmax) -> None:
    encoder = Encoder.of(golden.first_model(tmp_path).eval().elmo)
    scorer, found = Scorer(encoder, softmax), encoder.embed(SENTENCES)
    expected = whole(scorer.surprisal(SENTENCES, found))
    words = whole(scorer.substitutes(found[0], [0], 3, "both"))

    with torch.autocast("cpu", torch.bfloat16):
        again = whole(scorer.surprisal(SENTENCES, found))
        assert whole(scorer.substitutes(found[0], [0], 3, "both")) == words

    assert all(map(torch.equal, expected, again))
