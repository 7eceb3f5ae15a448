"""The network and a worker on the pretend device: their errors, and what they cost there.

    python -m tests.support.placement [worker]    prints a JSON object: a `Report` of each case

A process can name such a device once, for all of its threads; so this is a program and no function
of the tests.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import torch
from torch import Tensor

from elmo_model import checkpoints
from elmo_model.checkpoints.softmax import StoredSoftmax
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.scorer import Scorer
from elmo_model.inference.steps import whole
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.network.softmax import WordSoftmax
from elmo_model.network.state import State
from elmo_model.text.alphabets import WordVocabulary
from elmo_serve.processes.arena import Arena
from elmo_serve.processes.heartbeat import Alive
from elmo_serve.selection import Output, select
from elmo_serve.workers.language import LanguageModel
from elmo_serve.workers.language_results import Scores, Substitutes, Wanted
from elmo_serve.workers.messages import Batch, Done
from elmo_serve.workers.model_worker import Runner
from elmo_serve.workers.staging import Staging
from tests.support.clock import LateExecutor, SteppedClock
from tests.support.cuda import NAME, DeviceTensor, PretendDevice, make
from tests.support.workers import Messages, serve, served

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
_LONG = ["a"] * 130  # three blocks of time steps
_GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(slots=True)
class Report:
    """An error, or "", the largest difference from the CPU, and counts of one batch each.

    `waits` are those of an encoder for a batch of several blocks and new words, until all of its
    vectors are computed; `scorer_waits` those of its surprisal. `step_launches` are the launches of
    one time step of all layers and both directions. For a worker, all are of three batches.
    """

    error: str = ""
    difference: float = 0.0
    step_launches: float = 0.0
    downloads: int = 0
    copies_at_once: int = 0
    beats: int = 0
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
    yield from encoder.embed([*_SENTENCES, _LONG])
    yield from encoder.embed(_SENTENCES)  # all words are in the cache
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
    scorer = Scorer(encoder, _softmax(encoder))
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
    whole(scorer.surprisal([*_SENTENCES, _LONG], layers))
    report.scorer_waits = device.waits


def _softmax(encoder: Encoder) -> WordSoftmax:
    words = WordVocabulary(("<S>", "</S>", "<UNK>", "a"))
    return WordSoftmax(torch.zeros(4, encoder.config.lstm.projection), torch.zeros(4), words, 4)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A softmax that lies in memory."""

    softmax: WordSoftmax
    words: int = 4
    total: int = 4

    def read(self) -> WordSoftmax:
        return self.softmax


def worker_report(wanted: Sequence[Wanted]) -> Report:
    """Return the report of a worker, of which each sentence of a batch wants one of these."""
    report, elmo = Report(), checkpoints.load(_GOLDEN / CHARACTERS)
    expected, _ = _served(_runner(elmo, "cpu"), wanted)
    with PretendDevice() as device:
        runner, thread = _runner(elmo.to(NAME), NAME), LateExecutor()
        runner.__dict__["_staging"] = Staging(torch.device(NAME), thread)
        device.reset()
        found, answers = _served(runner, wanted)
    report.copies_at_once = thread.most
    report.waits, report.blocking_uploads = device.waits, device.blocking_uploads
    report.downloads = device.downloads
    with PretendDevice():
        report.beats = _beats(_runner(elmo.to(NAME), NAME), wanted)
    done = [answer for answer in answers if isinstance(answer, Done) and not answer.not_finite]
    if [answer.batch for answer in done] != [2, 1, 3]:
        report.error = str(answers)
    for own, other in zip(found, expected, strict=True):
        report.difference = max(report.difference, float(np.abs(own - other).max(initial=0.0)))
    return report


def _runner(elmo: ElmoNetwork, device: str) -> Runner:
    encoder = Encoder.of(elmo)
    language = LanguageModel(encoder, cast(StoredSoftmax, _Stored(_softmax(encoder))))
    return Runner(encoder, torch.device(device), language=language)


def _beats(runner: Runner, wanted: Sequence[Wanted]) -> int:
    """Return the heartbeats of the same batches, a quarter of a second for each look at it."""
    batches, _ = _batches(runner, wanted)
    parent = Messages(*batches, now=SteppedClock())
    serve(runner, parent)
    return parent.sent.count(Alive())


def _served(runner: Runner, wanted: Sequence[Wanted]) -> tuple[list[Any], list[Any]]:
    """Run three batches of different words, the second one urgent; return numbers and answers."""
    batches, found = _batches(runner, wanted)
    return [own.astype(float) for own in found], served(runner, *batches)


def _batches(runner: Runner, wanted: Sequence[Wanted]) -> tuple[list[Batch], list[Any]]:
    """Return three batches, and the memory of each of their results."""
    arena, batches, found = Arena(), list[Batch](), list[Any]()
    for number in (1, 2, 3):
        sentences = [[f"a{number}", "bank", "a"] * n for n in range(1, len(wanted) + 1)]
        sizes = [own.size(3 * n, runner.info.dimension) for n, own in enumerate(wanted, 1)]
        ends = np.cumsum(np.ceil(np.array(sizes) / 8) * 8).astype(int).tolist()
        block = arena.acquire(ends[-1])
        offsets = (0, *ends[:-1])
        texts = tuple(orjson.dumps(sentence) for sentence in sentences)
        batches.append(Batch(number, texts, tuple(wanted), offsets, 9, 9, block, number == 2))
        for offset, size, own in zip(offsets, sizes, wanted, strict=True):
            found.append(block.array[offset : offset + size].view(own.dtype))
    return batches, found


OUTPUTS = (
    select("all", 3),
    replace(select([2, 0], 3), dtype="float16"),
    select("concat", 3, pooling="mean", normalize=True),
    Output(weights=(0.5, -1.0, 2.0), gamma=0.5, layer_norm=True),
    Output(weights=(0.5, 1.0, 2.0), pooling="max", dtype="float16"),
)
LANGUAGE = (Scores(), Substitutes((0, 2), 1, "both"), select("top", 3))


def main() -> None:
    """Print the report of each case."""
    make()
    if sys.argv[1:] == ["worker"]:
        reports = {"outputs": worker_report(OUTPUTS), "language": worker_report(LANGUAGE)}
    else:
        reports = {" ".join(run): report_of(*run) for run in RUNS}
        for network in ("plain", "float32"):
            for operation in OPERATIONS:
                reports[f"{network} {operation}"] = report_of(network, WORDS, operation)
    print(json.dumps({case: asdict(report) for case, report in reports.items()}))


if __name__ == "__main__":
    main()
