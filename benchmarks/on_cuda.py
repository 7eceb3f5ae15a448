"""The network on a CUDA device, and the limits of the device.

    python -m benchmarks.on_cuda TEXT [--checkpoint PATH] [--rows 1 8 32 64 128 256] [--rounds 5]
                                 [--precisions float32 bfloat16 float16] [--allennlp FOLDER]

Tokens a second of `Encoder.embed` with all words in the token cache: medians over rounds in which
all columns take turns; each time waits for the device before and after. "AllenNLP" is 2.10.1 on the
same device, in float32 (`benchmarks.against_allennlp` tells how FOLDER is made). "floor" is the
time that a step cannot go below: its products at the rate of large ones, or one read of its weights
at the pace of a large copy, whichever is longer, both measured here; "share" is the floor's share
of the loop's time. Weights that stay in the cache of the device are read faster than that.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks import inputs, machine
from benchmarks.allennlp import AllenNLP
from benchmarks.inputs import Batches
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.network.bilm import Packing
from elmo_model.network.config import LSTMConfig

PRECISIONS = ("float32", "bfloat16", "float16")
_COPIED = 1 << 28  # bytes
_SQUARE = 4096
_REPEATS = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """The best rates of a device: bytes read or written a second, and operations a second."""

    bandwidth: float
    rate: float


def floor_seconds(config: LSTMConfig, item: int, sizes: Sequence[int], limits: Limits) -> float:
    """Return the least seconds for steps of these rows, with weights of `item` bytes each.

    A step reads the weights of the recurrent product and of the projection, of all layers and both
    directions; those of the input product are read once for many steps.
    """
    products = config.cell * config.projection
    recurrent = products * (5 if config.projected else 4)
    both = 2 * config.layers
    reading = both * recurrent * item / limits.bandwidth
    row = both * 2.0 * (recurrent + 4 * products) / limits.rate
    return sum(max(reading, rows * row) for rows in sizes)


def limits_of(device: torch.device, dtype: torch.dtype) -> Limits:
    """Measure a large copy and a large product."""
    copied, square = (_COPIED, _SQUARE) if device.type == "cuda" else (_COPIED >> 6, _SQUARE >> 5)
    source = torch.randint(256, (copied,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    factor = torch.randn(square, square, device=device).to(dtype)
    product = torch.empty_like(factor)

    def copy() -> None:
        for _ in range(_REPEATS):
            target.copy_(source)

    def multiply() -> None:
        for _ in range(_REPEATS):
            torch.mm(factor, factor, out=product)

    copying, multiplying = (
        statistics.median(seconds(run, device) for _ in range(_REPEATS)) / _REPEATS
        for run in (copy, multiply)
    )
    return Limits(2 * copied / copying, 2.0 * square**3 / multiplying)


def wait(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], None], device: torch.device) -> float:
    """Return the seconds of a run; the device is idle before and after it."""
    wait(device)
    start = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - start


def floor_of(encoder: Encoder, item: int, sample: Batches, limits: Limits) -> float:
    """Return the least seconds for some batches."""
    lengths = [[len(sentence) for sentence in batch] for batch in sample.batches]
    sizes = [Packing.of(each, torch.device("cpu")).sizes for each in lengths]
    return sum(floor_seconds(encoder.config.lstm, item, each, limits) for each in sizes)


def embedding(
    embed: Callable[[list[inputs.Sentence]], object], sample: Batches
) -> Callable[[], None]:
    """Return a function that embeds all batches once."""

    def run() -> None:
        for batch in sample.batches:
            embed(batch)

    return run


def row(
    runs: dict[str, Callable[[], None]],
    sample: Batches,
    floor: float,
    rounds: int,
    device: torch.device,
) -> str:
    """Time all in turn and return their cells: rates, the floor, the loop's share of it."""
    for run in runs.values():
        run()  # compiles and allocates at first use
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(seconds(run, device))
    medians = {name: statistics.median(each) for name, each in found.items()}
    allennlp = f"{sample.tokens / medians['AllenNLP']:,.0f}" if "AllenNLP" in medians else ""
    cells = (
        f"{sample.tokens / medians['loop']:,.0f}",
        allennlp,
        f"{sample.tokens / floor:,.0f}",
        f"{floor / medians['loop']:.0%}",
    )
    return " | ".join(cells)


def main() -> int:
    """Print the table."""
    parser = machine.parser(__doc__)
    inputs.add_arguments(parser, tokens=20_000, rounds=5)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--allennlp", type=Path, help="the folder with AllenNLP 2.10.1")
    parser.add_argument("--device", default="cuda:0", help="cpu tries the program out")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("there is no CUDA device here, or torch was built without CUDA", file=sys.stderr)
        return 2
    text = inputs.read(options.text)
    samples = [
        inputs.batches(text, rows, options.tokens * min(rows, 64) // 64) for rows in options.rows
    ]
    with inputs.checkpoint(options.checkpoint) as path:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        print(f"{name}; {path.name}, {options.rounds} rounds; {machine.describe()}\n")
        allennlp = AllenNLP(options.allennlp, path, str(device)) if options.allennlp else None
        rates = ("loop, tokens/s", "AllenNLP, tokens/s", "floor, tokens/s", "share")
        print(machine.head("precision", "sentences at once", *rates, "GB/s", "TFLOP/s"))
        for precision in options.precisions:
            dtype: torch.dtype = getattr(torch, precision)
            limits = limits_of(device, dtype)
            encoder = Encoder.of(open_model(path).to(device), precision)
            for sample in samples:
                runs = {"loop": embedding(encoder.embed, sample)}
                if allennlp is not None:
                    runs["AllenNLP"] = embedding(allennlp.embed, sample)
                floor = floor_of(encoder, dtype.itemsize, sample, limits)
                cells = row(runs, sample, floor, options.rounds, device)
                measured = f"{limits.bandwidth / 1e9:,.0f} | {limits.rate / 1e12:,.1f}"
                print(f"| {precision} | {sample.rows} | {cells} | {measured} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
