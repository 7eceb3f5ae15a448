"""`elmo study` on the command line."""

from pathlib import Path

from tests.model.study.sets import write_sentiment
from tests.support.command_line import elmo
from tests.support.servers import SMALL


def test_it_prints_the_tables_and_keeps_them(tmp_path: Path) -> None:
    write_sentiment(tmp_path)

    found = elmo(
        *("study", tmp_path, tmp_path / "out", "--model", SMALL),
        *("--task", "sentiment", "--seeds", 1, "--limit", 20),
    )

    assert found.exit_code == 0, found.output
    assert found.output == (tmp_path / "out" / "tables.md").read_text()
    assert (tmp_path / "out" / "layers-sentiment.json").exists()


def test_a_missing_set_is_named(tmp_path: Path) -> None:
    found = elmo("study", tmp_path, tmp_path / "out", "--model", SMALL, "--task", "ner")

    assert found.exit_code == 1
    assert "ner/wnut17/train.tsv: is missing" in found.output
