"""The result of a fit: a table and bars for the terminal, and the files that are kept."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from safetensors.torch import save

from elmo_model.errors import counted
from elmo_model.files.atomic import write_bytes
from elmo_model.network.elmo import Origin
from elmo_model.tasks.comparison import LEARNED, Comparison
from elmo_model.tasks.examples import Kind
from elmo_model.tasks.fitter import FitOptions
from elmo_model.word_vectors import WordVectorsInfo

_BAR: Final = 40
"""Width of the longest bar, in characters."""

_DESCRIPTION: Final = "Learned by elmo fit."


@dataclass(frozen=True, slots=True)
class FittedTask:
    """A comparison, the task that it was made for, and the model whose vectors it used.

    `word_vectors` are the static vectors that the head saw behind the mixture. Another
    number of `threads` gives other last digits.
    """

    name: str
    kind: Kind
    options: FitOptions
    found: Comparison
    origin: Origin
    word_vectors: WordVectorsInfo | None = None
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
        """The members of the task file, which are those of PUT /tasks/{name}."""
        return {
            "name": self.name,
            "weights": list(self.found.best.weights),
            "gamma": self.found.best.gamma,
            "layer_norm": self.options.layer_norm,
            "description": _DESCRIPTION,
            "model": self.origin.name,
            "revision": self.origin.revision,
            "fit": self._fit(),
        }

    def _fit(self) -> dict[str, Any]:
        """Return what the weights were learned from."""
        learned = self.found.row(LEARNED)
        words = {} if self.word_vectors is None else {"word_vectors": asdict(self.word_vectors)}
        return {
            "kind": self.kind,
            "data": self.found.data,
            "model": self.origin.name,
            "revision": self.origin.revision,
            "seeds": self.options.seeds,
            "scored_on": self.found.scored_on,
            "score": learned.mean,
            "spread": learned.spread,
            **words,
        }


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
