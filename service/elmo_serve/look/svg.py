"""Pictures in SVG: a document with a title, text, and bars that read on light and dark pages."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

LAYER_STYLE = ".layer0{fill:#9aa5b1}.layer1{fill:#2a6f97}.layer2{fill:#d97706}.layer3{fill:#4d7c0f}"
"""Colours of the classes `layer0` to `layer3`."""

_LEFT, _BAR_WIDTH, _BAR, _GAP = 100, 320, 18, 6  # pixels


def document(title: str, width: int, height: int, style: str, parts: Iterable[str]) -> str:
    """Return a picture of these parts, with a bold title above them and for screen readers.

    `style` are CSS rules; text is dark, or light in the dark scheme of the reader.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="14">'
    )
    rules = f"<style>text{{fill:#222}}@media(prefers-color-scheme:dark){{text{{fill:#eee}}}}{style}"
    return "\n".join([head, rules + "</style>", text(10, 24, title, bold=True), *parts, "</svg>\n"])


def text(left: float, top: float, words: str, *, bold: bool = False) -> str:
    """Return words whose line begins at a place, in pixels."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{left}" y="{top}"{weight}>{escape(words)}</text>'


def signed_bars(title: str, notes: Sequence[str], groups: Mapping[str, Mapping[str, float]]) -> str:
    """Return a bar for each value from -1 to 1 in groups, from the middle to the left or right.

    `notes` are lines below the title.
    """
    parts = [text(10, 48 + 20 * line, note) for line, note in enumerate(notes)]
    top = 44 + 20 * len(notes)
    middle = _LEFT + _BAR_WIDTH / 2
    for name, values in groups.items():
        parts.append(text(10, top + 20, name, bold=True))
        top += 30
        parts.append(
            f'<line class="axis" x1="{middle:.1f}" x2="{middle:.1f}" y1="{top}" '
            f'y2="{top + (_BAR + _GAP) * len(values)}"/>'
        )
        for number, (label, value) in enumerate(values.items()):
            length = abs(value) * _BAR_WIDTH / 2
            left = middle if value >= 0 else middle - length
            parts += [
                text(10, top + 14, label),
                f'<rect class="layer{number % 4}" x="{left:.1f}" y="{top}" '
                f'width="{length:.1f}" height="{_BAR}"/>',
                text(_LEFT + _BAR_WIDTH + 15, top + 14, f"{value:.3f}"),
            ]
            top += _BAR + _GAP
    width = max(_LEFT + _BAR_WIDTH + 80, 20 + 8 * max(map(len, [title, *notes, *groups])))
    return document(title, width, top + 20, f".axis{{stroke:#999}}{LAYER_STYLE}", parts)
