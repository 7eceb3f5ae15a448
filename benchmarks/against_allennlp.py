"""The network beside AllenNLP 2.10.1 and bilm-tf, on the same threads, weights and sentences.

    python -m pip install --no-deps --target FOLDER allennlp==2.10.1
    python -m benchmarks.against_allennlp TEXT [--allennlp FOLDER] [--bilm-tf SOURCE
        --bilm-tf-python INTERPRETER] [--checkpoint PAIR] [--rounds 3]

Nothing else that AllenNLP asks for is needed, and its folder should lie outside of the project.
SOURCE is a clone of github.com/allenai/bilm-tf, INTERPRETER that of an environment with
`tensorflow-cpu==2.15.1` and h5py. All start from tokens and end with all layers. AllenNLP's
`_ElmoBiLm` is called directly, in inference mode, on batches sorted by length, which is faster than
any interface that it had; bilm-tf runs its own graph in one session. In bulk each has the batch
size that is its best here. A round is each peer, then each precision of ours; a ratio belongs to
one round, and to the peer that is faster in it. The table has the medians over the rounds. What our
token cache holds before a pass is said as in `benchmarks.network`; the peers have none.

The roofline is the rate in float32 that bare products allow, measured in this run: a time step
reads its weights once, at the rate of a product of one row, or computes its rows at the rate of a
product of 128, whichever takes longer; a word not cached takes its convolutions and highways.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks import inputs, machine
from benchmarks.allennlp import AllenNLP
from benchmarks.bilm_tf import BilmTf
from benchmarks.inputs import Batches, Sentence
from benchmarks.network import PRECISIONS, encoders, tokens_per_second
from benchmarks.on_cuda import Limits, floor_of
from elmo_model.inference.encoder import Encoder
from tests.support.checkpoints import weights_file


class Peer(Protocol):
    """Another program that embeds."""

    def vectors(self, sentences: list[Sentence]) -> Sequence[Any]:
        """Return the layers of each sentence, (L + 1, longest, 2P), from a state of zeros."""

    def seconds(self, batches: Sequence[list[Sentence]]) -> float:
        """Return the time that some batches take."""


_MATRICES, _WIDE, _NARROW, _ROWS = 6, 16_384, 512, 128  # six of 32 MB: more than caches hold


def furthest(encoder: Encoder, peer: Peer, sample: Batches) -> float:
    """Return the largest difference between both answers, each sentence from a state of zeros."""
    worst = 0.0
    for batch in sample.batches:
        for ours, theirs in zip(encoder.embed(batch), peer.vectors(batch), strict=True):
            layers = torch.as_tensor(theirs)[:, : ours.shape[1]]
            worst = max(worst, float((ours - layers).abs().max()))
    return worst


def limits() -> Limits:
    """Measure products of one row and of many, over matrices that no cache holds."""
    matrices = [torch.randn(_NARROW, _WIDE) for _ in range(_MATRICES)]
    found = []
    for rows in (1, _ROWS):
        factor, times = torch.randn(rows, _NARROW), []
        for _ in range(5):
            start = time.perf_counter()
            for matrix in matrices:
                torch.mm(factor, matrix)
            times.append(time.perf_counter() - start)
        found.append(_MATRICES * _NARROW * _WIDE / min(times))  # numbers read a second
    return Limits(4 * found[0], 2 * _ROWS * found[1])


def roofline(encoder: Encoder, sample: Batches, cached: str, allowed: Limits) -> float:
    """Return the tokens a second that bare products in float32 allow."""
    cnn = encoder.config.char_cnn
    assert cnn is not None, "the peers read characters"
    known = {"none": set[str](), "text": set(sample.familiar)}[cached]
    words = set(sample.words) - known
    characters = sum(min(len(word.encode()) + 2, cnn.max_characters) for word in words)
    of_character = cnn.embedding * sum(width * count for width, count in cnn.filters)
    of_word = cnn.width * (2 * cnn.highways * cnn.width + encoder.config.lstm.projection)
    operations = 2.0 * (characters * of_character + len(words) * of_word)
    seconds = floor_of(encoder, 4, sample, allowed) + operations / allowed.rate
    return sample.tokens / seconds


def compare(
    peers: dict[str, tuple[Peer, Batches]],
    networks: dict[str, Encoder],
    ours: Batches,
    rounds: int,
    allowed: Limits,
) -> None:
    """Print the rows of one way to embed."""
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for name, (peer, sample) in peers.items():
            theirs[name].append(sample.tokens / peer.seconds(sample.batches))
        for cached in ("text", "none"):
            for precision, encoder in networks.items():
                rate = tokens_per_second(encoder, ours, cached)
                rates.setdefault((precision, cached), []).append(rate)
    sizes = [f"{name} {sample.rows}" for name, (_, sample) in peers.items()]
    others = "".join(f", {size}" for size in sizes if int(size.split()[1]) != ours.rows)
    medians = [f"{statistics.median(found):,.0f}" for found in theirs.values()]
    for (precision, cached), found in rates.items():
        best = map(max, zip(*theirs.values(), strict=True))
        ratio = statistics.median(a / b for a, b in zip(found, best, strict=True))
        rate, share = statistics.median(found), ""
        if precision == "float32":
            bound = roofline(networks[precision], ours, cached, allowed)
            share = f"{bound:,.0f}, {rate / bound:.0%}"
        named = (f"{ours.rows}{others}", precision, cached, *medians)
        print(machine.row(*named, f"{rate:,.0f}", f"{ratio:.1f}", share), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = machine.parser(__doc__)
    inputs.add_arguments(parser, tokens=300, rounds=3)
    parser.add_argument("--allennlp", type=Path, help="its site-packages")
    parser.add_argument("--bilm-tf", type=Path, help="its source")
    parser.add_argument("--bilm-tf-python", type=Path, help="a Python with TensorFlow")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8], help="sentences at once")
    parser.add_argument("--bulk", type=int, nargs="*", default=[32, 64, 128], help="to choose from")
    parser.add_argument("--our-bulk", type=int, default=128, help="ours, a batch in bulk")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    return parser


def main() -> int:
    """Print the table."""
    parser = _parser()
    options = parser.parse_args()
    if options.allennlp is None and None in (options.bilm_tf, options.bilm_tf_python):
        parser.error("--allennlp, or --bilm-tf and --bilm-tf-python, are required")
    text = inputs.read(options.text)
    with inputs.checkpoint(options.checkpoint) as path:
        print(f"{path.name}, {options.rounds} rounds; {machine.describe()}")
        networks = encoders(path, options.precisions)
        peers: dict[str, Peer] = {}
        if options.allennlp:
            peers["AllenNLP"] = AllenNLP(options.allennlp, path)
        if options.bilm_tf:
            files = next(path.glob("*options.json")), weights_file(path)
            peers["bilm-tf"] = BilmTf(options.bilm_tf, options.bilm_tf_python, *files)
            peers["bilm-tf"].vectors([["a"]])  # it has read the files then, which may be temporary

    def sample(rows: int) -> Batches:
        return inputs.batches(text, rows, options.tokens)

    for name, peer in peers.items():
        for precision, network in networks.items():
            worst = furthest(network, peer, sample(8))
            print(f"largest difference to {name}, {precision}: {worst:.2g}")
    _print_table(peers, networks, sample, options)
    return 0


def _print_table(
    peers: dict[str, Peer],
    networks: dict[str, Encoder],
    sample: Callable[[int], Batches],
    options: argparse.Namespace,
) -> None:
    for network in networks.values():
        network.embed(sample(1).batches[0])  # what is made at first use
    best: dict[str, tuple[Peer, Batches]] = {}
    for name, peer in peers.items():
        peer.seconds(sample(1).batches)
        bulk = [sample(rows) for rows in options.bulk]
        rates = {each.rows: each.tokens / peer.seconds(each.batches) for each in bulk}
        if rates:
            best[name] = peer, sample(max(rates, key=rates.__getitem__))
            found = ", ".join(f"{rate:,.0f} with {rows}" for rows, rate in rates.items())
            print(f"{name} in bulk, tokens/s by sentences at once: {found}")
    allowed = limits()
    print(f"bare products: {allowed.bandwidth / 1e9:.1f} GB/s, {allowed.rate / 1e9:,.0f} GFLOP/s")
    speeds = [f"{name}, tokens/s" for name in [*peers, "ours"]]
    named = ("sentences at once", "ours", "words cached")
    print(f"\n{machine.head(*named, *speeds, 'ratio', 'roofline, share', names=3)}")
    for rows in options.rows:
        same = {name: (peer, sample(rows)) for name, peer in peers.items()}
        compare(same, networks, sample(rows), options.rounds, allowed)
    if best:
        compare(best, networks, sample(options.our_bulk), options.rounds, allowed)


if __name__ == "__main__":
    sys.exit(main())
