"""`elmo fit`: from its options to a task, its head and its report."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save

from elmo_model.errors import counted
from elmo_model.files.atomic import write_bytes
from elmo_model.inference.centre import sentences
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.threads import fastest_threads, using_threads
from elmo_model.models.catalogue import tokenization
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import Origin
from elmo_model.steps import OnStep, ignore
from elmo_model.tasks.comparison import LEARNED, Comparison, compare
from elmo_model.tasks.examples import FitError, Kind
from elmo_model.tasks.features import Encode, encode_by
from elmo_model.tasks.fitter import FitOptions
from elmo_model.tasks.readers import read_parts
from elmo_model.text.tokenizers import tokenizer

_TRIED = 8  # sentences that a trial of threads computes at once
_BAR: Final = 40
"""Width of the longest bar, in characters."""

_DESCRIPTION: Final = "Learned by elmo fit."


@dataclass(frozen=True, slots=True)
class FitCommand:
    """The options of `elmo fit` that say what is learned from which examples.

    `tokenizer` splits the columns that hold text; None: that of the model.
    """

    name: str
    kind: Kind
    label: str
    train: Path
    test: Path | None = None
    limit: int | None = None
    tokenizer: str | None = None
    options: FitOptions = field(default_factory=FitOptions)


@dataclass(frozen=True, slots=True)
class LayerSource:
    """Where a fit takes the layers of its sentences from: an encoder here, or a server.

    `tokenizer` and `language` are those of the model, for text. `threads` are those of the fit.
    """

    origin: Origin
    tokenizer: str
    language: str
    encode: Encode
    threads: int = 1


@dataclass(frozen=True, slots=True)
class FittedTask:
    """A comparison, the task that it was made for, and the model whose vectors it used.

    Another number of `threads` gives other last digits.
    """

    name: str
    kind: Kind
    options: FitOptions
    found: Comparison
    origin: Origin
    threads: int = 1

    def write(self, out: Path) -> tuple[Path, Path]:
        """Write head and report to `NAME.fit` in the folder `out`, then the task file `NAME.json`.

        Return the task file and the folder. Raises OSError.
        """
        task, folder = out / f"{self.name}.json", out / f"{self.name}.fit"
        folder.mkdir(parents=True, exist_ok=True)
        head = self.found.best.head.linear.state_dict()
        metadata = {"labels": json.dumps(self.found.best.classes), "kind": self.kind}
        write_bytes(folder / "head.safetensors", save(head, metadata))
        options = {**asdict(self.options), "threads": self.threads}
        about = {"model": asdict(self.origin), "options": options}
        write_bytes(folder / "report.json", _json_bytes(about | document(self.found)))
        write_bytes(task, _json_bytes(self.members))
        return task, folder

    @property
    def members(self) -> dict[str, Any]:
        """The members of the task file.

        `fit` says what the weights were learned from.
        """
        learned = self.found.row(LEARNED)
        model = {"model": self.origin.name, "revision": self.origin.revision}
        return {
            "name": self.name,
            "weights": list(self.found.best.weights),
            "gamma": self.found.best.gamma,
            "layer_norm": self.options.layer_norm,
            "description": _DESCRIPTION,
            **model,
            "fit": {
                "kind": self.kind,
                "data": self.found.data,
                **model,
                "seeds": self.options.seeds,
                "scored_on": self.found.scored_on,
                "score": learned.mean,
                "spread": learned.spread,
            },
        }


def encoder_source(
    model: str, device: str, precision: str, *, layer_norm: bool, threads: int | None = None
) -> LayerSource:
    """Return the source of an encoder in this process; `model` is a path or a built-in name.

    Without `threads` a trial of the network on a few sentences chooses them. Raises
    CheckpointError.
    """
    elmo = open_model(model, device=device)
    with torch.no_grad():
        threads = threads or fastest_threads(lambda: elmo(sentences()[:_TRIED]))
    with using_threads(threads):
        encoder = Encoder.of(elmo, precision)
    split_by, language = tokenization(encoder.origin.name, model)
    encode = encode_by(encoder, layer_norm=layer_norm)
    return LayerSource(encoder.origin, split_by, language, encode, threads)


def fit(command: FitCommand, source: LayerSource, on_step: OnStep = ignore) -> FittedTask:
    """Fit a task on the layers of a source.

    Raises FitError where nothing can be learned, and TextError for a file that is no text.
    """
    tokenize = tokenizer(command.tokenizer or source.tokenizer, source.language)
    files = command.train, command.test
    train, test = read_parts(*files, command.kind, command.label, tokenize, command.limit)
    with using_threads(source.threads):
        found = compare(source.encode, train, test, command.options, on_step)
    return FittedTask(
        command.name,
        command.kind,
        command.options,
        found,
        source.origin,
        source.threads,
    )


def refuse_existing(name: str, out: Path) -> None:
    """Raise FitError for a file of a task of this name in the folder `out`."""
    for path in (out / f"{name}.json", out / f"{name}.fit"):
        if path.exists():
            raise FitError(f"{path}: exists; --force replaces it")


def text(found: Comparison) -> str:
    """Return the table of scores in percent, and the learned weights as bars."""
    scored, unit = found.scored, "pair" if found.scored.kind == "pair" else "sentence"
    counts = [counted(scored.sentences, unit)]
    if scored.kind == "token":
        counts.append(counted(scored.examples, "token"))
    if scored.spans is not None:
        counts.insert(0, counted(scored.spans, "span"))
    measure = "accuracy" if scored.spans is None else "span F1"
    rows = [
        f"  {row.name:<10} {100 * row.mean:6.2f} ± {100 * row.spread:.2f}" for row in found.rows
    ]
    learned = map(statistics.fmean, zip(*found.row(LEARNED).weights, strict=True))
    bars = [
        f"  layer {layer:<4} {weight:6.3f} {'█' * round(_BAR * weight)}"
        for layer, weight in enumerate(learned)
    ]
    head = f"{measure} on {', '.join(counts)} of the {found.scored_on} part, %"
    return "\n".join([head, *rows, "learned weights", *bars])


def document(found: Comparison) -> dict[str, Any]:
    """Return everything that the report says, for JSON."""
    scored = found.scored
    return {
        "scored_on": found.scored_on,
        "scored_examples": scored.examples,
        "scored_sentences": scored.sentences,
        "scored_spans": scored.spans,
        "measure": "accuracy" if scored.spans is None else "span_f1",
        "train_examples": found.train_examples,
        "data": found.data,
        "classes": list(found.best.classes),
        "mixtures": {
            row.name: {
                "mean": row.mean,
                "spread": row.spread,
                "weights": [list(weights) for weights in row.weights],
                "scores": [scores.as_dict() for scores in row.scores],
            }
            for row in found.rows
        },
    }


def _json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a JSON object as an indented text that ends with a line feed."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
