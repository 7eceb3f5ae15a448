"""`elmo fit`: from its options to a task file, a head and a report."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import save

from elmo_model.atomic_files import write_bytes
from elmo_model.elmo import Origin
from elmo_model.fitting import report
from elmo_model.fitting.comparison import LEARNED, Comparison, compare
from elmo_model.fitting.examples import FitError, Kind
from elmo_model.fitting.fitter import FitOptions
from elmo_model.fitting.readers import read_examples
from elmo_model.inference.encoder import Encoder
from elmo_model.pretrained import open_model
from elmo_model.tokenizers import tokenizer

DESCRIPTION = "Learned by elmo fit."


@dataclass(frozen=True, slots=True)
class FitCommand:
    """The options of `elmo fit`. `model` is a path or a built-in name."""

    name: str
    kind: Kind
    label: str
    train: Path
    out: Path
    model: str
    test: Path | None = None
    limit: int | None = None
    tokenizer: str = "whitespace"
    precision: str = "float32"
    force: bool = False
    options: FitOptions = field(default_factory=FitOptions)


def fit(command: FitCommand, on_step: Callable[[str], None] = lambda _: None) -> str:
    """Fit a task, write its files, and return the report for the terminal.

    `NAME.json` in the folder `out` is a task file for the service; `NAME.fit/` beside it holds
    `head.safetensors`, `report.json` and `weights.svg`. Everything is written at the end.

    Raises:
        FitError: nothing can be learned from the files, or the files of the task exist.
        CheckpointError, TextError: a file cannot be read.
    """
    task, folder = command.out / f"{command.name}.json", command.out / f"{command.name}.fit"
    for path in (task, folder):
        if path.exists() and not command.force:
            raise FitError(f"{path}: exists; --force replaces it")
    tokenize = tokenizer(command.tokenizer)
    train = read_examples(command.train, command.kind, command.label, tokenize, command.limit)
    train.check(str(command.train))
    test = None
    if command.test is not None:
        test = read_examples(command.test, command.kind, command.label, tokenize)
        if not len(test):
            raise FitError(f"{command.test}: holds no example")
    on_step(f"Reading {command.model}")
    encoder = Encoder.of(open_model(command.model), command.precision)

    def encode(sentences: Any) -> Any:
        return encoder.encode_whole(sentences, bounded=True).sentences()

    found = compare(encode, train, test, command.options, lambda done: on_step(f"Fitted {done}"))
    _write(command, found, encoder.origin, task, folder)
    return f"{report.text(found)}\nWrote {task} and {folder}"


def _write(
    command: FitCommand, found: Comparison, origin: Origin, task: Path, folder: Path
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {"model": asdict(origin), "options": asdict(command.options)}
    document |= report.document(found)
    head = found.best.head.linear.state_dict()
    metadata = {"labels": json.dumps(found.best.classes), "kind": command.kind}
    write_bytes(folder / "head.safetensors", save(head, metadata))
    write_bytes(folder / "report.json", _json(document))
    write_bytes(folder / "weights.svg", report.picture(found, command.name).encode())
    write_bytes(task, _json(_task(command, found, origin)))


def _task(command: FitCommand, found: Comparison, origin: Origin) -> dict[str, Any]:
    """Return the task file: the keys of PUT /tasks/{name}, and the object `fit`."""
    learned = found.row(LEARNED)
    return {
        "name": command.name,
        "weights": list(found.best.weights),
        "gamma": found.best.gamma,
        "layer_norm": command.options.layer_norm,
        "description": DESCRIPTION,
        "fit": {
            "kind": command.kind,
            "data": found.data,
            "model": origin.name,
            "revision": origin.revision,
            "seeds": command.options.seeds,
            "scored_on": found.scored_on,
            "score": learned.mean,
            "spread": learned.spread,
        },
    }


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
