"""Pictures of the study: intervals on a line, and weights as bars, in SVG."""

from collections.abc import Iterable, Mapping, Sequence

from elmo_model.study.intervals import Interval
from elmo_model.svg import LAYER_STYLE, document, text

_LEFT, _WIDTH, _ROW = 210, 400, 24  # pixels
_STYLE = (
    ".axis{stroke:#999}.dot{fill:#2a6f97}.bar{stroke:#2a6f97}"
    "@media(prefers-color-scheme:dark){.dot{fill:#7cc6ec}.bar{stroke:#7cc6ec}}" + LAYER_STYLE
)

Groups = Mapping[str, Mapping[str, Interval]]
"""Named rows of named groups; each group has a scale of its own."""


def intervals(title: str, groups: Groups) -> str:
    """Return a dot and a line for the mean and the interval of each row, in percent."""
    parts: list[str] = []
    top = 40
    for name, rows in groups.items():
        low = min(each.mean - (each.half or 0) for each in rows.values())
        high = max(each.mean + (each.half or 0) for each in rows.values())
        scale = _WIDTH / ((high - low) or 1.0)
        parts.append(text(10, top + 16, name, bold=True))
        for label, each in rows.items():
            top += _ROW
            middle = _LEFT + scale * (each.mean - low)
            half = scale * (each.half or 0)
            parts += [
                text(20, top + 16, label),
                f'<line class="bar" stroke-width="2" x1="{middle - half:.1f}" '
                f'x2="{middle + half:.1f}" y1="{top + 11}" y2="{top + 11}"/>',
                f'<circle class="dot" cx="{middle:.1f}" cy="{top + 11}" r="4"/>',
                text(_LEFT + _WIDTH + 15, top + 16, f"{100 * each.mean:.1f}"),
            ]
        top += _ROW + 10
    return _svg(title, top + 10, parts)


def weights(title: str, rows: Mapping[str, Sequence[float]]) -> str:
    """Return a bar of all layers for each row, whose weights sum to 1."""
    parts: list[str] = []
    top = 40
    for label, shares in rows.items():
        parts.append(text(10, top + 16, label))
        left = float(_LEFT)
        for layer, share in enumerate(shares):
            width = _WIDTH * share
            parts.append(
                f'<rect class="layer{layer % 4}" x="{left:.1f}" y="{top}" width="{width:.1f}" '
                f'height="{_ROW - 4}"><title>layer {layer}: {share:.3f}</title></rect>'
            )
            left += width
        top += _ROW
    layers = max((len(shares) for shares in rows.values()), default=0)
    for layer in range(layers):
        left = _LEFT + 90 * layer
        parts.append(
            f'<rect class="layer{layer % 4}" x="{left}" y="{top + 8}" width="14" height="14"/>'
        )
        parts.append(text(left + 20, top + 20, f"layer {layer}"))
    return _svg(title, top + 36, parts)


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    return document(title, _LEFT + _WIDTH + 70, height, _STYLE, parts)
