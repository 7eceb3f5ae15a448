"""The table of `elmo look` for a terminal."""

from __future__ import annotations

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from elmo_serve.look.uses import Uses

_BAR = 10  # characters of a cosine of 1
_WIDE = 120  # characters of a line where the output is no terminal


def table(found: Uses) -> Group:
    """Return the compared places, and a row for each pair with a bar for each layer."""
    pairs = found.pairs()
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    rows.add_column("pair", no_wrap=True)
    for layer in next(iter(pairs.values())):
        rows.add_column(layer, no_wrap=True)
    for pair, values in pairs.items():
        rows.add_row(pair, *(f"{value:6.3f} {bar(value)}" for value in values.values()))
    places = Text("\n".join([found.title, "", *found.names, ""]))
    return Group(places, rows)


def bar(cosine: float) -> str:
    """Return a bar for a cosine; a hollow one is negative."""
    return ("█" if cosine >= 0 else "░") * round(_BAR * abs(cosine))


def show(found: Uses) -> None:
    """Print the table to standard output."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table(found))
