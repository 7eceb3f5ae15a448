"""How much of the time the bare matrix products take: what is left is ours to lose.

    python -m benchmarks.roofline TEXT [--checkpoint PATH] [--rows 32 64 128] [--rounds 3]

"whole" is `Elmo.embed` with all words in the caches. "bare" are the products that it then has to
make, in the same form and on the same threads, on numbers that lie ready: all but the input
products of the first layer. Both in turn; share = bare / whole. In bfloat16 and int8 a product
includes the rounding of its inputs.
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
from benchmarks.network import PRECISIONS, fill, prepared
from elmo_model.elmo import Elmo
from elmo_model.inference.lstm import PreparedLSTM
from elmo_model.inference.parallel_directions import side_by_side
from elmo_model.layers.bilm import BiLM
from elmo_model.layers.packing import Packing
from elmo_model.layers.recurrence import blocks
from elmo_model.layers.stack import Stack


def bare_products(bilm: BiLM, lengths: Sequence[int]) -> Callable[[], None]:
    """Return a function that computes all products that sentences of these lengths ask for."""
    sizes = Packing.of(lengths, torch.device("cpu")).sizes
    config = bilm.config
    positions = torch.rand(sum(lengths), config.projection) - 0.5
    h, half = (
        torch.rand(len(lengths), config.projection) - 0.5,
        torch.rand(len(lengths), config.cell) - 0.5,
    )

    def direction(stack: Stack) -> None:
        for number, layer in enumerate(stack.layers):
            assert isinstance(layer, PreparedLSTM)
            _layer(layer, sizes, positions if number else None, h, half)

    def both() -> None:
        with torch.inference_mode():
            side_by_side(
                lambda: direction(bilm.forward_stack), lambda: direction(bilm.backward_stack)
            )

    return both


def _layer(
    layer: PreparedLSTM, sizes: Sequence[int], inputs: Tensor | None, h: Tensor, half: Tensor
) -> None:
    ready = layer.gates_of(h)
    for start, steps in blocks(sizes, layer.block):
        if inputs is not None:
            layer.input.addend(inputs[start : start + sum(steps)], layer.bias)
        for rows in steps:
            layer.recurrent.plus(h[:rows], ready[:rows])
            if layer.projection is not None:
                layer.projection(half[:rows])


def operations(bilm: BiLM, tokens: int) -> float:
    """Return the multiplications and additions of the bare products for so many tokens."""
    config = bilm.config
    square = config.cell * config.projection
    recurrent = 4 * square + (square if config.projected else 0)
    inputs = 4 * square  # from the second layer on
    return 2.0 * 2 * (config.layers * recurrent + (config.layers - 1) * inputs) * tokens


def measure(elmo: Elmo, sample: Batches, rounds: int) -> tuple[float, float, float, float]:
    """Return seconds whole, seconds bare, the median of their ratios, and GFLOP/s bare."""
    products = [bare_products(elmo.bilm, [len(s) for s in b]) for b in sample.batches]
    fill(elmo, sample, "all")

    def whole() -> None:
        for batch in sample.batches:
            elmo.embed(batch)

    def bare() -> None:
        for run in products:
            run()

    bare()
    pairs = [(_seconds(whole), _seconds(bare)) for _ in range(rounds)]
    wholes, bares = zip(*pairs, strict=True)
    share = statistics.median(b / w for w, b in pairs)
    seconds = statistics.median(bares)
    rate = operations(elmo.bilm, sample.tokens) / seconds / 1e9
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
        networks = prepared(path, options.precisions)
        print(f"{path.name}, {options.rounds} rounds; {describe()}\n")
    print("| precision | sentences at once | whole, tokens/s | bare, tokens/s | GFLOP/s | share |")
    print("|---|--:|--:|--:|--:|--:|")
    for precision, elmo in networks.items():
        for rows in options.rows:
            sample = inputs.batches(text, rows, options.tokens)
            whole, bare, share, rate = measure(elmo, sample, options.rounds)
            rates = f"{sample.tokens / whole:,.0f} | {sample.tokens / bare:,.0f} | {rate:,.0f}"
            print(f"| {precision} | {rows} | {rates} | {share:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
