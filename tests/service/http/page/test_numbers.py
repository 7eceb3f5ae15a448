"""The numbers of the page are those that anybody computes from the answers of the server."""

import json

import numpy as np
import pytest

from tests.service.http.page.conftest import NER
from tests.support.word_page import Layers, WordPage

TEXTS = ("We sat on the river bank.", "The bank doesn't lend.", "A bank of fog")
HALF = 0.005 + 1e-5
"""Half of the last digit of a cosine, and what another batch may change of float32 vectors."""

SELECTIONS = {"0": [1.0, 0, 0], "1": [0, 1.0, 0], "2": [0, 0, 1.0], "average": [1 / 3] * 3}


def softmax(scalars: list[float]) -> list[float]:
    powers = np.exp(np.array(scalars) - max(scalars))
    return list(powers / powers.sum())


@pytest.fixture
def layers(page: WordPage) -> Layers:
    page.compare(*TEXTS)
    return Layers.of(page.url, *TEXTS)


@pytest.mark.parametrize("selection", ["1", "average"])
def test_cosines_of_layers_and_of_their_average(
    page: WordPage, layers: Layers, selection: str
) -> None:
    page.select(selection)
    page.click("#tokens .sentence:nth-child(2) .token:nth-child(2) input")

    reference = page.reference()
    assert layers.words[reference] == "bank"
    expected = layers.cosines(SELECTIONS[selection], reference)
    np.testing.assert_allclose(page.similarities(), expected, atol=HALF)


@pytest.mark.parametrize("gamma", [1.0, -2.5])
def test_cosines_of_a_mixture(page: WordPage, layers: Layers, gamma: float) -> None:
    page.select("mix")
    page.set("#weight-0", -1.5)
    page.set("#weight-2-exact", "0.123456")
    page.set("#gamma-exact", str(gamma))

    factors = [gamma * weight for weight in softmax([-1.5, 0, 0.123456])]
    expected = layers.cosines(factors, page.reference())
    np.testing.assert_allclose(page.similarities(), expected, atol=HALF)
    shares = [text for text in page.texts("#mixture output") if text]
    percent = [100 * weight for weight in softmax([-1.5, 0, 0.123456])]
    found = [float(share.removesuffix(" %")) for share in shares]
    np.testing.assert_allclose(found, percent, atol=0.0501)


def test_cosines_of_a_task(page: WordPage, layers: Layers) -> None:
    page.select("mix")
    page.set("#task", "ner")

    factors = [NER["gamma"] * weight for weight in softmax(NER["weights"])]  # type: ignore[operator,arg-type]
    expected = layers.cosines(factors, page.reference())
    np.testing.assert_allclose(page.similarities(), expected, atol=HALF)
    assert page.chromium.run("document.querySelector('#gamma-exact').value") == "1.5"


def test_the_table_has_every_layer_the_average_and_the_mixture(
    page: WordPage, layers: Layers
) -> None:
    page.select("mix")
    page.set("#weight-1", 2)
    words = layers.words
    rows = page.texts("#layers tbody strong")

    reference = page.reference()
    columns = [*SELECTIONS.values(), softmax([0, 2, 0])]
    expected = np.array([layers.cosines(column, reference) for column in columns]).T
    same = [i for i, word in enumerate(words) if word == "bank" and i != reference]
    by_cosine = sorted(
        (i for i in range(len(words)) if i not in (*same, reference)),
        key=lambda i: -expected[i, -1],
    )
    same.sort(key=lambda i: -expected[i, -1])
    compared = [*same, *by_cosine][: len(rows)]
    assert rows == [words[i] for i in compared]
    np.testing.assert_allclose(page.table(), expected[compared], atol=HALF)


@pytest.mark.parametrize("selection", ["0", "mix"])
def test_the_map_is_the_pca_of_the_tokens(page: WordPage, layers: Layers, selection: str) -> None:
    page.select(selection)
    factors = SELECTIONS.get(selection, [1 / 3] * 3)
    if selection == "mix":
        page.set("#gamma-exact", "2")
        factors = [2 / 3] * 3

    rows = layers.centred(factors)
    left, scales, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = left[:, :2] * scales[:2]
    found = page.map()
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-3)
    shares = [round(share * 100) for share in (scales**2 / (scales**2).sum())[:2]]
    words = page.text("#map-words")
    assert f"Across: {shares[0]} %" in words
    assert f"Up: {shares[1]} %" in words


def test_vectors_are_float32_to_the_bit(page: WordPage) -> None:
    texts = json.dumps(TEXTS)
    read = page.chromium.run(
        "import('/page/safetensors.js').then(async ({ parse }) => {"
        "  const ask = (accept) => fetch('embed', {method: 'POST', headers: {"
        "    'Content-Type': 'application/json', Accept: accept},"
        f"    body: JSON.stringify({{text: {texts}}})}});"
        "  const { tensors, metadata } = parse("
        "    await (await ask('application/vnd.safetensors')).arrayBuffer());"
        "  const { embeddings, tokens } = await (await ask('application/json')).json();"
        "  const same = tensors.every(({ shape, values }, sentence) => {"
        "    const flat = embeddings[sentence].flat(2).map(Math.fround);"
        "    return flat.length === values.length && shape[0] === 3"
        "      && flat.every((value, i) => Object.is(value, values[i])); });"
        "  return [same, tensors.length, metadata.tokens === JSON.stringify(tokens)]; })"
    )

    assert read == [True, len(TEXTS), True]
