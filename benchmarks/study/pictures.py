"""Pictures of the tables: intervals on a line, and weights as bars, in SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.study.intervals import Interval
from benchmarks.study.layer_choice import PENALTIES
from benchmarks.study.results import Part
from benchmarks.study.tables import by_place, compared, mean_weights, single_layers


def draw(folder: Path, choices: Sequence[Part], taggers: Sequence[Part]) -> None:
    """Write `weightings.svg`, `layers.svg`, `penalty.svg` and `places.svg` of the results."""
    if choices:
        weightings = {part["task"]: compared(part) for part in choices}
        intervals(folder / "weightings.svg", "Test score by weighting, %", weightings)
        layers = {part["task"]: single_layers(part) for part in choices}
        intervals(folder / "layers.svg", "Test score of every layer alone, %", layers)
        shares = {
            f"{part['task']}, λ = {penalty:g}": mean_weights(
                part["mixtures"][f"learned, lambda {penalty:g}"]["weights"]
            )
            for part in choices
            for penalty in PENALTIES
        }
        weights(
            folder / "penalty.svg", "Normalised weights of the layers, mean over the seeds", shares
        )
    if taggers:
        title = "BiLSTM-CRF tagger: test score by place of ELMo, %"
        intervals(folder / "places.svg", title, by_place(taggers))


def intervals(path: Path, title: str, groups: Mapping[str, Mapping[str, Interval]]) -> None:
    """Draw a dot and a line for the mean and the interval of each row; a group has its own axis."""
    sizes = [len(rows) for rows in groups.values()]
    figure = Figure(figsize=(7, 0.8 + 0.6 * len(groups) + 0.25 * sum(sizes)), layout="constrained")
    figure.suptitle(title)
    all_axes = figure.subplots(len(groups), squeeze=False, height_ratios=sizes)[:, 0]
    for axes, (name, rows) in zip(all_axes, groups.items(), strict=True):
        means = [100 * each.mean for each in rows.values()]
        halves = [100 * (each.half or 0) for each in rows.values()]
        axes.errorbar(means, list(rows), xerr=halves, fmt="o")
        axes.set_title(name, loc="left")
        axes.margins(y=0.2)
        axes.invert_yaxis()
    _save(figure, path)


def weights(path: Path, title: str, rows: Mapping[str, Sequence[float]]) -> None:
    """Draw a bar of all layers for each row, whose weights sum to 1."""
    figure = Figure(figsize=(7, 1 + 0.3 * len(rows)), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots()
    left = [0.0] * len(rows)
    for layer, shares in enumerate(zip(*rows.values(), strict=True)):
        axes.barh(list(rows), shares, left=left, label=f"layer {layer}")
        left = [start + share for start, share in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=4)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    # Text stays text, and the same results give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "study"}):
        figure.savefig(path, metadata={"Date": None})
