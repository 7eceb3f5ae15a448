"""The share of the time that the bare matrix products take.

    python -m benchmarks.roofline TEXT [--checkpoint PATH] [--rows 32 64 128] [--rounds 3]

"whole" is `Encoder.embed` with all words in the caches. "bare" are the products that it computes
then, in the same form and on the same threads, on inputs that are ready: all but the input products
of the first layer. Both take turns; share = bare / whole. In bfloat16 and int8 a product includes
the rounding of its inputs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks import inputs
from benchmarks.inputs import Batches
from benchmarks.machine import describe
from benchmarks.network import PRECISIONS, encoders, fill
from elmo_model.inference.bilm import InferenceBiLM
from elmo_model.inference.encoder import Encoder
from elmo_model.inference.lstm import InferenceLSTM
from elmo_model.inference.parallel_directions import ParallelDirections
from elmo_model.inference.stack import InferenceStack
from elmo_model.layers.packing import Packing
from elmo_model.layers.recurrence import blocks


def bare_products(bilm: InferenceBiLM, lengths: Sequence[int]) -> Callable[[], None]:
    """Return a function that computes all products of sentences of these lengths."""
    sizes = Packing.of(lengths, torch.device("cpu")).sizes
    config = bilm.config
    positions = torch.rand(sum(lengths), config.projection) - 0.5
    h, half = (
        torch.rand(len(lengths), config.projection) - 0.5,
        torch.rand(len(lengths), config.cell) - 0.5,
    )

    directions = ParallelDirections()

    def direction(stack: InferenceStack) -> None:
        for number, layer in enumerate(stack.layers):
            _layer(layer, sizes, positions if number else None, h, half)

    def both() -> None:
        with torch.inference_mode():
            directions.run(
                lambda: direction(bilm.forward_stack), lambda: direction(bilm.backward_stack)
            )

    return both


def _layer(
    layer: InferenceLSTM, sizes: Sequence[int], inputs: Tensor | None, h: Tensor, half: Tensor
) -> None:
    ready = layer.project(h)
    for start, steps in blocks(sizes, layer.block):
        if inputs is not None:
            layer.input.with_bias(inputs[start : start + sum(steps)], layer.bias)
        for rows in steps:
            layer.recurrent.addmm(ready[:rows], h[:rows])
            if layer.projection is not None:
                layer.projection.linear(half[:rows])


def operations(bilm: InferenceBiLM, tokens: int) -> float:
    """Return the multiplications and additions of the bare products of this many tokens."""
    config = bilm.config
    square = config.cell * config.projection
    recurrent = 4 * square + (square if config.projected else 0)
    inputs = 4 * square  # from the second layer on
    return 2.0 * 2 * (config.layers * recurrent + (config.layers - 1) * inputs) * tokens


def measure(encoder: Encoder, sample: Batches, rounds: int) -> tuple[float, float, float, float]:
    """Return seconds whole, seconds bare, the median of their ratios, and GFLOP/s bare."""
    products = [bare_products(encoder.bilm, [len(s) for s in b]) for b in sample.batches]
    fill(encoder, sample, "all")

    def whole() -> None:
        for batch in sample.batches:
            encoder.embed(batch)

    def bare() -> None:
        for run in products:
            run()

    bare()
    pairs = [(_seconds(whole), _seconds(bare)) for _ in range(rounds)]
    wholes, bares = zip(*pairs, strict=True)
    share = statistics.median(b / w for w, b in pairs)
    seconds = statistics.median(bares)
    rate = operations(encoder.bilm, sample.tokens) / seconds / 1e9
    return statistics.median(wholes), seconds, share, rate


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    inputs.add_arguments(parser, tokens=1_000, rounds=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    text = inputs.read(options.text)
    with inputs.checkpoint(options.checkpoint) as path:
        networks = encoders(path, options.precisions)
        print(f"{path.name}, {options.rounds} rounds; {describe()}\n")
    print("| precision | sentences at once | whole, tokens/s | bare, tokens/s | GFLOP/s | share |")
    print("|---|--:|--:|--:|--:|--:|")
    for precision, encoder in networks.items():
        for rows in options.rows:
            sample = inputs.batches(text, rows, options.tokens)
            whole, bare, share, rate = measure(encoder, sample, options.rounds)
            rates = f"{sample.tokens / whole:,.0f} | {sample.tokens / bare:,.0f} | {rate:,.0f}"
            print(f"| {precision} | {rows} | {rates} | {share:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
