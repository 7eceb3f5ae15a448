"""`elmo perplexity`: of any model with a softmax; `elmo convert` keeps what it measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import training as golden
from tests.support.command_line import elmo
from tests.support.training import write_bundle

HELDOUT = golden.FOLDER / "heldout.txt"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bilm_tf")


def test_text_that_is_not_tokenised_is_told(bundle: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The cat sat.\nIt rains.\n")

    result = elmo("perplexity", bundle, text, "--json")

    assert json.loads(result.stdout)["predictions"] == 7
    assert f"elmo: {text.resolve()}: lines end in tokens such as 'sat.'" in result.stderr


def test_a_converted_model_keeps_its_softmax(bundle: Path, tmp_path: Path) -> None:
    kept = tmp_path / "a.safetensors"

    def measured(model: Path) -> float:
        found = elmo("perplexity", model, HELDOUT, "--json", "--sentences", "20")
        return float(json.loads(found.stdout)["bits_per_word"])

    exact = measured(bundle)
    assert elmo("convert", bundle, kept).exit_code == 0
    assert measured(kept) == pytest.approx(exact, abs=1e-6)
    assert elmo("convert", bundle, kept, "--softmax", "int8", "--force").exit_code == 0
    assert measured(kept) == pytest.approx(exact, abs=1e-2)
    assert elmo("convert", bundle, kept, "--softmax-words", "10", "--force").exit_code == 0
    assert measured(kept) < exact - 0.5  # most words are `<UNK>` now
    assert elmo("convert", bundle, kept, "--softmax", "none", "--force").exit_code == 0
    assert "has no softmax" in elmo("perplexity", kept, HELDOUT).stderr
    told = elmo("convert", bundle, tmp_path / "pair").stderr
    assert "a pair keeps no softmax: it is left out" in told
