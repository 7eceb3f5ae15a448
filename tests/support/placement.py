"""The network on the pretend device: its errors, and what it costs there.

    python -m tests.support.placement     prints a JSON object: a `Report` of each case

A process can name such a device once, for all of its threads; so this is a program and no function
of the tests.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_model import checkpoints
from elmo_model.checkpoints.softmax import WordSoftmax
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.state import State
from elmo_model.text.alphabets import WordVocabulary
from tests.support.pretend_device import NAME, DeviceTensor, PretendDevice, make

CHARACTERS, WORDS = "allennlp/small", "elmoformanylangs/word_and_char"
RUNS = (
    ("plain", CHARACTERS),
    ("plain", WORDS),
    ("float32", CHARACTERS),
    ("float32", WORDS),
    ("bfloat16", CHARACTERS),
    ("bfloat16", WORDS),
)
"""The network of the paper, and encoders of a precision."""
OPERATIONS = ("add", "mm", "addmm", "cat", "embedding", "index_select")

_SENTENCES = [["a", "bank", "by", "a", "river"], ["naïve"], [], ["a", "東京"]]
_LONG = ["a"] * 150  # three blocks of time steps
_GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(slots=True)
class Report:
    """An error, or "", the largest difference from the CPU, and counts of one batch each.

    `waits` are those of an encoder for a batch of several blocks and new words, until all of its
    vectors are computed; `scorer_waits` those of its surprisal. `step_launches` are the launches of
    one time step of all layers and both directions.
    """

    error: str = ""
    difference: float = 0.0
    step_launches: float = 0.0
    waits: list[str] = field(default_factory=list)
    blocking_uploads: list[str] = field(default_factory=list)
    scorer_waits: list[str] = field(default_factory=list)


def results(network: str, elmo: ElmoNetwork) -> Iterator[Tensor]:
    """Compute with a network and yield what it returns."""
    if network == "plain":
        yield from elmo.embed(_SENTENCES)
        with torch.inference_mode():
            yield from _carried(elmo)
        return
    encoder = Encoder.of(elmo, network)
    for _ in range(2):  # the second time with all words in the cache
        yield from encoder.embed([*_SENTENCES, _LONG])
    yield encoder.encode_whole(_SENTENCES, bounded=True).layers
    yield from _carried(encoder.encode_from)


def _carried(encode: Any) -> Iterator[Tensor]:
    state: State | None = None
    for sentences in (_SENTENCES, _SENTENCES[:2]):
        representations, state = encode(sentences, state)
        yield from (representations.layers, state.h, state.c)


def report_of(network: str, checkpoint: str, misplaced: str = "") -> Report:
    """Return the report of a network.

    An operation that is called `misplaced` is given one tensor on the CPU.
    """
    report, elmo = Report(), checkpoints.load(_GOLDEN / checkpoint)
    expected = [] if misplaced else list(results(network, elmo))
    try:
        with PretendDevice(misplaced) as device:
            elmo.to(NAME)
            vectors = list(results(network, elmo))
            if network != "plain" and not misplaced:
                _count(Encoder.of(elmo, network), device, report)
    except RuntimeError as error:
        return Report(" ".join(str(error).split()))
    for each, other in zip(vectors, expected, strict=False):
        if not isinstance(each, DeviceTensor):
            return Report("vectors on the CPU")
        if other.numel():
            report.difference = max(report.difference, float((each.on_cpu - other).abs().max()))
    return report


def _count(encoder: Encoder, device: PretendDevice, report: Report) -> None:
    words = WordVocabulary(("<S>", "</S>", "<UNK>", "a"))
    weight = torch.zeros(4, encoder.config.lstm.projection)
    scorer = Scorer(encoder, WordSoftmax(weight, torch.zeros(4), words, 4))
    launches = []
    for tokens in (20, 30):
        encoder.embed([_LONG[:tokens]])
        device.reset()
        encoder.embed([_LONG[:tokens]])
        launches.append(device.launches)
    report.step_launches = (launches[1] - launches[0]) / 10
    encoder.word_cache.clear()
    device.reset()
    layers = encoder.embed([*_SENTENCES, _LONG])
    report.waits, report.blocking_uploads = device.waits, device.blocking_uploads
    device.reset()
    scorer.surprisal([*_SENTENCES, _LONG], layers)
    report.scorer_waits = device.waits


def main() -> None:
    """Print the report of each case."""
    make()
    reports = {" ".join(run): report_of(*run) for run in RUNS}
    for network in ("plain", "float32"):
        for operation in OPERATIONS:
            reports[f"{network} {operation}"] = report_of(network, WORDS, operation)
    print(json.dumps({case: asdict(report) for case, report in reports.items()}))


if __name__ == "__main__":
    main()
