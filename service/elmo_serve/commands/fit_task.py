"""The work of `elmo fit`: vectors of a model or a server, the fit, its table and its files."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import save

from elmo_model.errors import counted
from elmo_model.files.atomic import write_bytes
from elmo_model.network.elmo import Origin
from elmo_model.steps import OnStep
from elmo_model.tasks.comparison import LEARNED, Comparison, Row, compare
from elmo_model.tasks.examples import FitError
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.readers import Reading, read_parts
from elmo_model.tasks.source import LayerSource, encoder_source
from elmo_model.text import tokenizers
from elmo_model.threads import using_threads
from elmo_serve.commands.options import model_of_server, resolve_model
from elmo_serve.commands.server import connected
from elmo_serve.models.in_process import place_of

if TYPE_CHECKING:  # a fit here needs no HTTP client
    from elmo_client import Client

_BAR: Final = 40
"""Width of the longest bar, in characters."""

_DESCRIPTION: Final = "Learned by elmo fit."


@dataclass(frozen=True, slots=True)
class FittedTask:
    """A comparison, the name of the task that it was made for, and where its vectors came from."""

    name: str
    options: FitOptions
    comparison: Comparison
    source: LayerSource

    def write(self, out: Path) -> tuple[Path, Path]:
        """Write head and report to `NAME.fit` in the folder `out`, then the task file `NAME.json`.

        Return the task file and the folder. Raises OSError.
        """
        task, folder = paths(self.name, out)
        folder.mkdir(parents=True, exist_ok=True)
        best = self.comparison.best
        kind = self.comparison.scored.kind
        metadata = {"labels": json.dumps(best.classes), "kind": kind}
        write_bytes(folder / "head.safetensors", save(best.head.linear.state_dict(), metadata))
        options = {**asdict(self.options), "threads": self.source.threads}
        about = {"model": asdict(self.source.origin), "options": options}
        write_bytes(folder / "report.json", _json_bytes(about | report(self.comparison)))
        write_bytes(task, _json_bytes(self.members))
        return task, folder

    @property
    def members(self) -> dict[str, Any]:
        """The members of the task file. `fit` says what the weights were learned from."""
        found = self.comparison
        learned, origin = found.row(LEARNED), self.source.origin
        model = {"model": origin.name, "revision": origin.revision}
        return {
            "name": self.name,
            "weights": list(found.best.weights),
            "gamma": found.best.gamma,
            "layer_norm": self.options.layer_norm,
            "description": _DESCRIPTION,
            **model,
            "fit": {
                "kind": found.scored.kind,
                "data": found.data,
                **model,
                "seeds": self.options.seeds,
                "scored_on": found.scored.part,
                "measure": found.scored.measure,
                "score": learned.mean.value,
                "error": learned.mean.error,
                "spread": learned.spread,
            },
        }


def fit(
    name: str,
    chosen: Mapping[str, Any],
    on_step: OnStep,
    *,
    model: str,
    device: str,
    precision: str,
    threads: int | None,
    server: str | None,
    api_key: str | None,
    **files: Any,
) -> FittedTask:
    """Fit a task on the layers of a model here, or of a server; `chosen` are of `FitOptions`.

    Raises FitError, TextError, CheckpointError and ServerError.
    """
    options = FitOptions(**chosen)
    if server is None:
        on_step(f"Reading {model}")
        path, place = resolve_model(model), place_of(device)
        source = encoder_source(
            path, place, precision, layer_norm=options.layer_norm, threads=threads
        )
        return FittedTask(name, options, _compared(source, options, on_step, **files), source)
    with connected(server, api_key, model_of_server()) as client:
        source = _layers_of(client, threads)
        return FittedTask(name, options, _compared(source, options, on_step, **files), source)


def _compared(
    source: LayerSource,
    options: FitOptions,
    on_step: OnStep,
    *,
    train: Path,
    test: Path | None,
    limit: int | None,
    tokenizer: str | None,
    **reading: Any,
) -> Comparison:
    tokenize = tokenizers.tokenizer(tokenizer or source.tokenizer, source.language)
    parts = read_parts(train, test, Reading(tokenize=tokenize, **reading), limit)
    with using_threads(source.threads):
        return compare(source.encode, *parts, options, on_step)


def _layers_of(client: "Client", threads: int | None) -> LayerSource:
    """Return the source of the layers that a server computes, with bounded memory.

    The steps of the fit itself are so short that several threads gain little.
    """
    info = client.info()

    def encode(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[int, torch.Tensor]]:
        return enumerate(map(torch.from_numpy, client.stream(sentences, layers="all")))

    origin = Origin(info["model"], info["format"], info["revision"])
    return LayerSource(origin, info["tokenizer"], info["language"], encode, threads or 1)


def paths(name: str, out: Path) -> tuple[Path, Path]:
    """Return the task file, and the folder of head and report."""
    return out / f"{name}.json", out / f"{name}.fit"


def refuse_existing(name: str, out: Path) -> None:
    """Raise FitError for a file of a task of this name in the folder `out`."""
    for path in paths(name, out):
        if path.exists():
            raise FitError(f"{path}: exists; --force replaces it")


def table(found: Comparison) -> str:
    """Return the scores in percent, the learned weights as bars, and the row to take."""
    scored, equal = found.scored, found.equal
    counts = [counted(scored.sentences, "sentence")]
    if scored.kind == "token":
        counts.append(counted(scored.examples, "token"))
    measure = "accuracy"
    if scored.measure == "span_f1":
        counts.insert(0, counted(scored.spans or 0, "span"))
        measure = "span F1"
    reason = f" ({scored.reason})" if scored.reason else ""
    lines = [
        f"{measure}{reason} on {', '.join(counts)} of the {scored.part} part, %",
        f"  {'':<10}   score ± error  seeds",
        *(_line(row, is_equal=row.name in equal) for row in found.rows),
        "error: standard error over sentences; seeds: standard deviation between seeds",
        "*: no difference from the best (paired by sentence, 95 %)",
        "learned weights",
    ]
    learned = map(statistics.fmean, zip(*found.row(LEARNED).weights, strict=True))
    for layer, weight in enumerate(learned):
        lines.append(f"  layer {layer:<4} {weight:6.3f} {'█' * round(_BAR * weight)}")
    chosen, best = found.recommended
    reason = "it is the best" if chosen == best else f"it equals the best, {best},"
    return "\n".join([*lines, f"take {chosen}: {reason} on the validation part"])


def _line(row: Row, *, is_equal: bool) -> str:
    error, spread = (
        "-" if value is None else f"{100 * value:.2f}" for value in (row.mean.error, row.spread)
    )
    line = f"  {row.name:<10} {100 * row.mean.value:6.2f} ± {error:<5} {spread:>6}"
    return f"{line}  *" if is_equal else line


def report(found: Comparison) -> dict[str, Any]:
    """Return everything that the report says, for JSON."""
    scored, equal = found.scored, found.equal
    return {
        "scored_on": scored.part,
        "scored_examples": scored.examples,
        "scored_sentences": scored.sentences,
        "scored_spans": scored.spans,
        "measure": scored.measure,
        "reason": scored.reason,
        "train_examples": found.train_examples,
        "data": found.data,
        "classes": list(found.best.classes),
        "scheme": None if scored.spans is None else "IOB2",
        "take": found.recommended[0],
        "mixtures": {
            row.name: {
                "mean": row.mean.value,
                "error": row.mean.error,
                "spread": row.spread,
                "equals_best": row.name in equal,
                "weights": [list(weights) for weights in row.weights],
                "scores": [score.value for score in row.scores],
                "validation_scores": [score.value for score in row.validation],
            }
            for row in found.rows
        },
    }


def _json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a JSON object as an indented text that ends with a line feed."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
