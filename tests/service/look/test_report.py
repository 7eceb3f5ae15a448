"""The table of `elmo look`."""

from __future__ import annotations

from rich.console import Console

from elmo_serve.look.uses import Uses, bar, table

USES = Uses("a", [["a", "b"], ["a"]], [(0, 0), (1, 0)], {"0": [0.5], "average": [-0.25]}, True)


def test_a_pair_is_a_row_with_a_cosine_and_a_bar_for_each_layer() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(USES))
    lines = [line.rstrip() for line in capture.get().splitlines()]

    assert lines[0] == 'Cosine of uses of "a", centred'
    assert lines[2:4] == ["1 [a] b", "2 [a]"]
    assert lines[5].split() == ["pair", "layer", "0", "average"]
    assert lines[6].split() == ["1", "and", "2", "0.500", "█████", "-0.250", "░░"]


def test_a_bar_is_as_long_as_its_cosine() -> None:
    assert bar(1.0) == "█" * 10 and bar(-0.5) == "░" * 5 and bar(0.0) == ""
