"""`elmo perplexity`: anything but the folder of a run is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo_model.checkpoints import native
from elmo_model.models.opening import open_model
from tests.support.command_line import elmo


@pytest.mark.parametrize("place", ["english", "original", "model.safetensors", "published", "none"])
def test_a_model_without_its_softmax_is_refused(
    published: Path, tmp_path: Path, place: str
) -> None:
    native.save(open_model(published), tmp_path / "model.safetensors")
    text = tmp_path / "text.txt"
    text.write_text("a b c\n")
    run = place if place in ("english", "original") else tmp_path / place

    result = elmo("perplexity", run, text)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"elmo: {run}: is no folder of an `elmo train` run")
    assert "softmax" in result.stderr
    assert len(result.stderr.splitlines()) == 1
