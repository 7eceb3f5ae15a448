"""The network beside AllenNLP 2.10.1, on the same torch, threads, weights and sentences.

    python -m pip install --no-deps --target FOLDER allennlp==2.10.1
    python -m benchmarks.against_allennlp TEXT --allennlp FOLDER [--checkpoint PAIR] [--rounds 3]

Nothing else that AllenNLP asks for is needed, and its folder should lie outside of the project.
Both start from tokens and end with all layers. AllenNLP's `_ElmoBiLm` is called directly, in
inference mode, on batches sorted by length, which is faster than any interface that it had; in bulk
it has the batch size that is its best here. A round is AllenNLP, then each precision of ours, and a
ratio belongs to one round; the table has the medians over the rounds. What our token cache holds
before a pass is said as in `benchmarks.network`; AllenNLP has none.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import inputs
from benchmarks.allennlp import AllenNLP
from benchmarks.inputs import Batches
from benchmarks.machine import describe
from benchmarks.network import PRECISIONS, encoders, tokens_per_second
from elmo_model.inference.encoder import Encoder


def allennlp_tokens_per_second(allennlp: AllenNLP, sample: Batches) -> float:
    """Time one pass through some batches."""
    allennlp.forget()
    start = time.perf_counter()
    for batch in sample.batches:
        allennlp.embed(batch)
    return sample.tokens / (time.perf_counter() - start)


def furthest(encoder: Encoder, allennlp: AllenNLP, sample: Batches) -> float:
    """Return the largest difference between both answers, each sentence from a state of zeros."""
    worst = 0.0
    for batch in sample.batches:
        allennlp.forget()
        theirs = allennlp.embed(batch)
        for row, ours in enumerate(encoder.embed(batch)):
            worst = max(worst, _difference(ours, theirs[:, row, 1 : 1 + ours.shape[1]]))
    return worst


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max()) if ours.numel() else 0.0


def best_rows(allennlp: AllenNLP, candidates: Sequence[Batches]) -> dict[int, float]:
    """Return AllenNLP's tokens a second for each batch size, one pass each, the best one first."""
    rates = {sample.rows: allennlp_tokens_per_second(allennlp, sample) for sample in candidates}
    return dict(sorted(rates.items(), key=lambda pair: -pair[1]))


def compare(
    allennlp: AllenNLP, networks: dict[str, Encoder], theirs: Batches, ours: Batches, rounds: int
) -> None:
    """Print the rows of one way to embed."""
    base: list[float] = []
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        base.append(allennlp_tokens_per_second(allennlp, theirs))
        for cached in ("text", "none"):
            for precision, encoder in networks.items():
                rate = tokens_per_second(encoder, ours, cached)
                rates.setdefault((precision, cached), []).append(rate)
    at_once = f"{ours.rows}" if theirs.rows == ours.rows else f"{ours.rows}, theirs {theirs.rows}"
    for (precision, cached), found in rates.items():
        ratio = statistics.median(a / b for a, b in zip(found, base, strict=True))
        print(
            f"| {at_once} | {precision} | {cached} | {statistics.median(base):,.1f} | "
            f"{statistics.median(found):,.0f} | {ratio:.1f} |",
            flush=True,
        )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    inputs.add_arguments(parser, tokens=300, rounds=3)
    parser.add_argument("--allennlp", type=Path, required=True, help="its site-packages")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8], help="sentences at once")
    parser.add_argument("--bulk", type=int, nargs="*", default=[32, 64, 128], help="to choose from")
    parser.add_argument("--our-bulk", type=int, default=128, help="ours, a batch in bulk")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    text = inputs.read(options.text)
    with inputs.checkpoint(options.checkpoint) as path:
        networks = encoders(path, options.precisions)
        allennlp = AllenNLP(options.allennlp, path)
        print(f"{path.name}, {options.rounds} rounds; {describe()}")

    def sample(rows: int) -> Batches:
        return inputs.batches(text, rows, options.tokens)

    for network in networks.values():
        network.embed(sample(1).batches[0])  # what is made at first use
    allennlp.embed(sample(1).batches[0])
    for precision, network in networks.items():
        worst = furthest(network, allennlp, sample(8))
        print(f"largest difference to AllenNLP, {precision}: {worst:.2g}")
    bulk = best_rows(allennlp, [sample(rows) for rows in options.bulk])
    found = ", ".join(f"{rate:,.0f} with {rows}" for rows, rate in bulk.items())
    print(f"AllenNLP in bulk, tokens/s by sentences at once: {found}\n")
    print(
        "| sentences at once | ours | words cached | AllenNLP, tokens/s | ours, tokens/s | ratio |"
    )
    print("|--:|---|---|--:|--:|--:|")
    for rows in options.rows:
        compare(allennlp, networks, sample(rows), sample(rows), options.rounds)
    if bulk:
        compare(
            allennlp, networks, sample(next(iter(bulk))), sample(options.our_bulk), options.rounds
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
