"""`elmo score`: the table that tools of psycholinguistics read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elmo_model.checkpoints import softmax
from elmo_model.models.opening import open_model
from elmo_model.training.perplexity import per_token
from elmo_serve.commands.score import _pieces
from tests.support import training as golden
from tests.support.command_line import elmo
from tests.support.training import write_bundle


def test_each_token_has_a_row_with_its_surprisal(tmp_path: Path) -> None:
    model, text = write_bundle(tmp_path / "bilm_tf"), tmp_path / "text.txt"
    text.write_text("the of\n\nunheard-of\n")

    result = elmo("score", text, "--model", model)

    assert result.exit_code == 0, result.stderr
    head, *rows = (line.split("\t") for line in result.stdout.splitlines())
    assert head == ["sentence_id", "token_id", "token", "surprisal", "unk", "forward", "backward"]
    assert [row[:3] for row in rows] == [
        ["1", "1", "the"],
        ["1", "2", "of"],
        ["3", "1", "unheard-of"],
    ]
    assert [row[4] for row in rows] == ["0", "0", "1"]
    assert all(row[3] == row[5] for row in rows)
    # of one word: the first prediction of a sentence, without that of its end
    network = golden.first_model(tmp_path)
    of = [per_token(network, golden.vocabulary(), [tokens]) for tokens in (["unheard-of"], [])]
    assert 0 < float(rows[2][3]) < 2 * of[0].forward_loss / 0.69


def test_a_softmax_of_its_own_is_cut_and_text_is_split(tmp_path: Path) -> None:
    model, text = write_bundle(tmp_path / "bilm_tf"), tmp_path / "text.txt"
    text.write_text("It, not.\n")
    found = softmax.find_softmax(model)
    assert found is not None
    kept = tmp_path / "kept.softmax.safetensors"
    softmax.save(found.read(), kept, open_model(model).origin.revision)
    (model / "vocab.txt").unlink()

    more = ("--softmax", kept, "--softmax-words", "10")
    raw = elmo("score", text, "--model", model, *more)
    result = elmo("score", text, "--model", model, *more, "--tokenizer", "ptb")

    note = (
        f"elmo: {text}: lines end in tokens such as 'not.'; if they are not tokenised, --tokenizer"
    )
    assert raw.stderr == f"{note} model splits them\n" and not result.stderr
    for run, tokens in ((raw, ["It,", "not."]), (result, ["It", ",", "not", "."])):
        rows = [line.split("\t") for line in run.stdout.splitlines()[1:]]
        assert [row[2] for row in rows] == tokens
    assert {row[4] for row in rows} == {"1"}


def test_what_is_scored_is_written_before_more_is_read() -> None:
    """All rows of a text were held until the last one, and lost with Ctrl-C."""
    taken = 0

    def sentences() -> Iterator[list[str]]:
        nonlocal taken
        for _ in range(10_000):
            taken += 1
            yield ["a"]

    assert len(next(_pieces(sentences()))) == taken < 10_000
