"""The speed of the network without the service: tokens a second, and the cost of fewer bits.

    python -m benchmarks.network TEXT [--checkpoint PATH] [--rows 1 8 32 64] [--rounds 3]

Times `Encoder.embed` on sentences of a text. Before each pass the caches hold all words ("all"),
the words of a long job ("text": the word cache has the words of the rest of the text, the cache of
input projections those of the latest sentences), or none. The precisions take turns within each
round, so that a disturbance affects all of them. The second table compares the vectors with those
of float32: the mean cosine over all tokens, by layer.
"""

import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import inputs, machine
from benchmarks.inputs import Batches, Sentence
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model

PRECISIONS = ("float32", "bfloat16", "float16", "int8")
CACHES = ("all", "text", "none")
_AT_ONCE = 256  # words of a batch that fills the caches, each a sentence

Rates = dict[tuple[int, str, str], list[float]]
"""Tokens a second of every round, by sentences at once, words in the caches and precision."""


def encoders(path: Path, precisions: Sequence[str]) -> dict[str, Encoder]:
    """Load a network and build an encoder for each precision."""
    elmo = open_model(path)
    built = {}
    for precision in precisions:
        try:
            built[precision] = Encoder.of(elmo, precision, owns_process=True)
        except ValueError as error:  # this processor cannot hold it
            print(f"without {precision}: {error}", file=sys.stderr)
    return built


def tokens_per_second(encoder: Encoder, sample: Batches, cached: str) -> float:
    """Time one pass through some batches; `cached` is one of CACHES."""
    fill(encoder, sample, cached)
    start = time.perf_counter()
    for batch in sample.batches:
        encoder.embed(batch)
    return sample.tokens / (time.perf_counter() - start)


def fill(encoder: Encoder, sample: Batches, cached: str) -> None:
    """Bring both caches into one of the states of CACHES."""
    encoder.word_cache.clear()
    encoder.bilm.projections.clear()
    words = {"all": sample.words, "text": sample.familiar, "none": []}[cached]
    with torch.inference_mode():
        list(encoder.words.encode(words)[1])
    recently = recent(sample.rest, encoder.bilm.projections.capacity)
    last = {"all": sample.words, "text": recently, "none": []}
    for start in range(0, len(last[cached]), _AT_ONCE):
        encoder.embed([[word] for word in last[cached][start : start + _AT_ONCE]])


def recent(batches: Iterable[list[Sentence]], count: int) -> list[str]:
    """Return the last `count` distinct words of some batches, in order of use."""
    found: dict[str, None] = {}
    for batch in batches:  # the latest batch first
        found.update(dict.fromkeys(word for sentence in batch for word in sentence))
        if len(found) >= count:
            break
    return list(found)[:count][::-1]


def measure(networks: dict[str, Encoder], samples: Sequence[Batches], rounds: int) -> Rates:
    """Time all combinations in turn, `rounds` times."""
    rates: Rates = {}
    for _ in range(rounds):
        for sample in samples:
            for cached in CACHES:
                for precision, encoder in networks.items():
                    rate = tokens_per_second(encoder, sample, cached)
                    rates.setdefault((sample.rows, cached, precision), []).append(rate)
    return rates


def cosines(network: Encoder, reference: Encoder, sample: Batches) -> list[float]:
    """Return the mean cosine of each layer between the vectors of two networks."""
    layers = []
    for batch in sample.batches:
        ours, theirs = network.embed(batch), reference.embed(batch)
        pairs = zip(ours, theirs, strict=True)
        layers += [functional.cosine_similarity(a.double(), b.double(), dim=2) for a, b in pairs]
    means: list[float] = torch.cat(layers, dim=1).mean(dim=1).tolist()
    return means


def print_rates(rates: Rates, samples: Sequence[Batches], precisions: Sequence[str]) -> None:
    columns = (f"{precision}, tokens/s" for precision in precisions)
    print(machine.head("sentences at once", "words cached", *columns, names=2))
    for sample in samples:
        for cached in CACHES:
            medians = (statistics.median(rates[sample.rows, cached, p]) for p in precisions)
            print(machine.row(sample.rows, cached, *(f"{median:,.0f}" for median in medians)))


def print_cosines(networks: dict[str, Encoder], sample: Batches) -> None:
    reference = networks["float32"]
    print(machine.head("precision", *(f"layer {n}" for n in range(reference.config.layers))))
    for precision, network in networks.items():
        if network is not reference:
            means = cosines(network, reference, sample)
            print(machine.row(precision, *(f"{mean:.6f}" for mean in means)))


def main() -> int:
    """Print both tables."""
    parser = machine.parser(__doc__)
    inputs.add_arguments(parser, tokens=1_000, rounds=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    options = parser.parse_args()
    text = inputs.read(options.text)
    samples = [inputs.batches(text, rows, options.tokens) for rows in options.rows]
    with inputs.checkpoint(options.checkpoint) as path:
        networks = encoders(path, options.precisions)
        print(f"{path.name}, {options.rounds} rounds; {machine.describe()}\n")
    for network in networks.values():
        network.embed(samples[0].batches[0])  # what is made at first use
    print_rates(measure(networks, samples, options.rounds), samples, list(networks))
    if "float32" in networks and len(networks) > 1:
        print()
        print_cosines(networks, samples[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
