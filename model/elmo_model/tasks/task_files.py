"""The files of a fitted task: a head and a report, and the object `fit`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save

from elmo_model.files.atomic import write_bytes
from elmo_model.network.elmo import Origin
from elmo_model.tasks import report
from elmo_model.tasks.comparison import Comparison
from elmo_model.tasks.examples import Kind
from elmo_model.tasks.fitter import FitOptions
from elmo_model.word_vectors.look_up import WordVectorsInfo

HEAD = "head.safetensors"
REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class FittedTask:
    """A comparison, the task that it was made for, and the model whose vectors it used.

    `word_vectors` are the static vectors that the head saw behind the mixture.
    """

    name: str
    kind: Kind
    options: FitOptions
    found: Comparison
    origin: Origin
    word_vectors: WordVectorsInfo | None = None

    def write(self, folder: Path) -> None:
        """Write `head.safetensors` and `report.json`; make the folder if needed. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        document = {"model": asdict(self.origin), "options": asdict(self.options)}
        document |= report.document(self.found)
        head = self.found.best.head.linear.state_dict()
        metadata = {"labels": json.dumps(self.found.best.classes), "kind": self.kind}
        write_bytes(folder / HEAD, save(head, metadata))
        write_bytes(folder / REPORT, json_bytes(document))

    @property
    def fit(self) -> dict[str, Any]:
        """The object `fit` of the task file: what the weights were learned from."""
        learned = self.found.row(report.LEARNED)
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


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a JSON object as an indented text that ends with a line feed."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
