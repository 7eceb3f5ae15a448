"""The table of scores."""

from elmo_model.tasks.evaluation.score import Score, percent, table


def test_the_best_layer_is_marked() -> None:
    lines = table([Score("one", (1.0, 3.0, 2.0), 1000, 0.5, "guess")]).splitlines()
    assert "3.0*" in lines[1] and lines[1].count("*") == 1
    assert "1,000" in lines[1] and lines[1].endswith("0.5 (guess)")


def test_a_share_is_in_percent() -> None:
    assert percent(1, 8) == 12.5
