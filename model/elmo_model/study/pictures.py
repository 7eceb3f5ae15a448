"""Pictures of the study: intervals on a line, and weights as bars, in SVG."""

from collections.abc import Iterable, Mapping, Sequence

from elmo_model.study.intervals import Interval

_LEFT, _WIDTH, _ROW = 210, 400, 24  # pixels
_STYLE = (
    "<style>text{fill:#222}.axis{stroke:#999}.dot{fill:#2a6f97}.bar{stroke:#2a6f97}"
    ".layer0{fill:#9aa5b1}.layer1{fill:#2a6f97}.layer2{fill:#d97706}.layer3{fill:#4d7c0f}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.dot{fill:#7cc6ec}.bar{stroke:#7cc6ec}}"
    "</style>"
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
        parts.append(_text(10, top + 16, name, bold=True))
        for label, each in rows.items():
            top += _ROW
            middle = _LEFT + scale * (each.mean - low)
            half = scale * (each.half or 0)
            parts += [
                _text(20, top + 16, label),
                f'<line class="bar" stroke-width="2" x1="{middle - half:.1f}" '
                f'x2="{middle + half:.1f}" y1="{top + 11}" y2="{top + 11}"/>',
                f'<circle class="dot" cx="{middle:.1f}" cy="{top + 11}" r="4"/>',
                _text(_LEFT + _WIDTH + 15, top + 16, f"{100 * each.mean:.1f}"),
            ]
        top += _ROW + 10
    return _svg(title, top + 10, parts)


def weights(title: str, rows: Mapping[str, Sequence[float]]) -> str:
    """Return a bar of all layers for each row, whose weights sum to 1."""
    parts: list[str] = []
    top = 40
    for label, shares in rows.items():
        parts.append(_text(10, top + 16, label))
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
        parts.append(_text(left + 20, top + 20, f"layer {layer}"))
    return _svg(title, top + 36, parts)


def _svg(title: str, height: int, parts: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 70} {height}" '
        f'role="img" aria-label="{_escaped(title)}" font-family="sans-serif" font-size="14">'
    )
    return "\n".join([head, _STYLE, _text(10, 24, title, bold=True), *parts, "</svg>\n"])


def _text(left: float, top: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{left}" y="{top}"{weight}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
