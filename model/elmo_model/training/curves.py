"""The curves of a run as one SVG picture."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_COLOURS = ("#1b6ca8", "#c8553d", "#3b7d4f", "#7b5ea7")

Points = Sequence[tuple[float, float]]


def curves(log: Sequence[Mapping[str, Any]], title: str) -> str:
    """Draw perplexity over tokens read: both directions in training, the mean on held-out text.

    `log` is what a run wrote. The axis of perplexities is logarithmic.
    """
    training = [line for line in log if "loss_forward" in line]
    heldout = [line for line in log if "heldout_perplexity" in line]
    return _chart(
        title,
        {
            "forward, training": _points(training, "perplexity_forward"),
            "backward, training": _points(training, "perplexity_backward"),
            "both, held out": _points(heldout, "heldout_perplexity"),
        },
    )


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> Points:
    return [(line["tokens"], line[key]) for line in lines if math.isfinite(line[key])]


def _chart(title: str, series: Mapping[str, Points]) -> str:
    drawn = {name: points for name, points in series.items() if points}
    every = [point for points in drawn.values() for point in points] or [(0.0, 1.0)]
    across = _Axis(0.0, max(x for x, _ in every) or 1.0, _LEFT, _WIDTH - _RIGHT)
    low = math.log10(min(y for _, y in every)) - 0.03
    high = math.log10(max(y for _, y in every)) + 0.03
    up = _Axis(low, high, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 22, title, size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, "tokens read", anchor="middle"),
        _text(14, _TOP - 8, "perplexity"),
    ]
    for value in _round_values(across.high):
        x = across.at(value)
        parts.append(_line([(x, _TOP), (x, _HEIGHT - _BOTTOM)], "#eeeeee"))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 18, _short(value), anchor="middle"))
    for value in _decades(low, high):
        y = up.at(math.log10(value))
        parts.append(_line([(_LEFT, y), (_WIDTH - _RIGHT, y)], "#eeeeee"))
        parts.append(_text(_LEFT - 8, y + 4, _short(value), anchor="end"))
    for (name, points), colour, row in zip(drawn.items(), _COLOURS, range(4), strict=False):
        parts.append(
            _line([(across.at(x), up.at(math.log10(y))) for x, y in points], colour, width=1.8)
        )
        parts.append(_text(_WIDTH - _RIGHT - 8, _TOP + 16 + 16 * row, name, "end", colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self._begin, self._end = low, high, begin, end

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self._begin + share * (self._end - self._begin), 1)


def _round_values(high: float) -> list[float]:
    step = 10 ** math.floor(math.log10(high))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if high / s <= 8)
    return [step * number for number in range(int(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    every = [
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in (1, 2, 5)
    ]
    return [value for value in every if low <= math.log10(value) <= high]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _line(points: Points, colour: str, width: float = 1) -> str:
    places = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float, y: float, text: str, anchor: str = "start", colour: str = "#333333", size: int = 12
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
