"""The results of the study as Markdown tables."""

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.study.intervals import Interval
from benchmarks.study.layer_choice import PENALTIES
from benchmarks.study.results import Part
from benchmarks.study.tagger import PLACES

PENALTY, STRONG = (f"learned, lambda {penalty:g}" for penalty in PENALTIES)
"""The names of the learned mixtures in the results: by the small penalty and by the large one."""

PLACE_NAMES = {
    "none": "word vectors alone",
    "input": "+ ELMo at the input",
    "output": "+ ELMo at the output",
    "both": "+ ELMo at both",
}


def tables(choices: Sequence[Part], taggers: Sequence[Part]) -> str:
    """Return the tables of the results of `layer_choice` and of `place_result`, as Markdown."""
    found: list[str] = []
    if choices:
        found += [_weightings(choices), _layers(choices), _penalties(choices)]
    if taggers:
        found += [_places(taggers), _place_weights(taggers)]
    return "\n".join(found)


def mean_weights(weights: Iterable[Sequence[float]]) -> list[float]:
    """Return the weight of each layer, averaged over the seeds."""
    return [statistics.fmean(each) for each in zip(*weights, strict=True)]


def _interval(part: Part, name: str) -> Interval:
    return Interval.of(part["mixtures"][name]["scores"])


def _top(part: Part) -> str:
    return max(single_layers(part))


def compared(part: Part) -> dict[str, Interval]:
    """Return the learned mixture, the uniform one and the top layer."""
    names = {"learned": PENALTY, "uniform": "average", "top only": _top(part)}
    return {shown: _interval(part, name) for shown, name in names.items()}


def single_layers(part: Part) -> dict[str, Interval]:
    """Return each layer alone."""
    names = sorted(name for name in part["mixtures"] if name.startswith("layer "))
    return {name: _interval(part, name) for name in names}


def _weightings(choices: Sequence[Part]) -> str:
    rows = [
        [
            f"{part['task']} ({part['measure']})",
            *(each.percent() for each in compared(part).values()),
            _gain(part, "average"),
            _gain(part, _top(part)),
        ]
        for part in choices
    ]
    head = ["task", "learned", "uniform", "top only", "learned − uniform", "learned − top"]
    return _table(head, rows)


def _gain(part: Part, other: str) -> str:
    """Return the interval of the difference to the learned mixture, seed by seed, in points."""
    pairs = zip(part["mixtures"][PENALTY]["scores"], part["mixtures"][other]["scores"], strict=True)
    found = Interval.of([learned - fixed for learned, fixed in pairs])
    half = "" if found.half is None else f" ± {100 * found.half:.2f}"
    return f"{100 * found.mean:+.2f}{half}"


def _layers(choices: Sequence[Part]) -> str:
    rows = []
    for part in choices:
        single = single_layers(part)
        best = max(single, key=lambda name: single[name].mean)
        weights = mean_weights(part["mixtures"][PENALTY]["weights"])
        shown = [
            f"**{each.percent()}**" if name == best else each.percent()
            for name, each in single.items()
        ]
        rows.append([part["task"], *shown, " / ".join(f"{each:.2f}" for each in weights)])
    names = list(single_layers(choices[0]))
    return _table(["task", *names, f"learned weights, λ = {PENALTIES[0]:g}"], rows)


def _penalties(choices: Sequence[Part]) -> str:
    rows = []
    for part in choices:
        row = [part["task"]]
        for name in (PENALTY, STRONG):
            weights = mean_weights(part["mixtures"][name]["weights"])
            row.append(" / ".join(f"{each:.2f}" for each in weights))
            row.append(_interval(part, name).percent())
        rows.append(row)
    head = ["task"]
    for penalty in PENALTIES:
        head += [f"weights, λ = {penalty:g}", "score"]
    return _table(head, rows)


def by_place(taggers: Sequence[Part]) -> dict[str, dict[str, Interval]]:
    """Return the score of each task by the place of ELMo."""
    scores: dict[str, dict[str, list[float]]] = {}
    for part in sorted(taggers, key=lambda part: PLACES.index(part["place"])):
        own = scores.setdefault(part["task"], {})
        own.setdefault(PLACE_NAMES[part["place"]], []).append(part["score"])
    return {
        task: {place: Interval.of(values) for place, values in own.items()}
        for task, own in scores.items()
    }


def _places(taggers: Sequence[Part]) -> str:
    columns = by_place(taggers)
    measures = {part["task"]: part["measure"] for part in taggers}
    rows = [
        [name, *(own[name].percent() if name in own else "" for own in columns.values())]
        for name in PLACE_NAMES.values()
    ]
    return _table(["tagger", *(f"{task}, {measures[task]}" for task in columns)], rows)


def _place_weights(taggers: Sequence[Part]) -> str:
    found: dict[tuple[str, str, str], list[Part]] = {}
    for part in taggers:
        for place in part["weights"]:
            found.setdefault((part["task"], part["place"], place), []).append(part)
    rows = [
        [
            task,
            PLACE_NAMES[where],
            place,
            " / ".join(f"{w:.2f}" for w in mean_weights(p["weights"][place] for p in parts)),
            f"{statistics.fmean(part['gammas'][place] for part in parts):.2f}",
        ]
        for (task, where, place), parts in found.items()
    ]
    return _table(["task", "tagger", "mixture", "weights of the layers", "gamma"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
