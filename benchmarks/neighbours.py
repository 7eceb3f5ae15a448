"""`elmo index` and the search of uses: time, peak memory, recall and latency.

    python -m benchmarks.neighbours TEXT QUERIES [--tokens 1000000] [--folder FOLDER]

TEXT and QUERIES have a tokenised sentence a line; TEXT may be compressed. The first tokens of TEXT
are indexed by `elmo index`, unless FOLDER has that index already. Tokens of QUERIES, which are not
in the index, are searched: alone, and as requests to a server that nobody else uses. The recall is
the share of the ten nearest of all tokens that are among the ten that are found. Targets: recall
above 0.95, 20 ms at p99.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.machine import describe
from elmo_model.inference.encoder import Encoder
from elmo_model.models.opening import open_model
from elmo_model.neighbours.index import NeighbourIndex
from elmo_model.neighbours.store import open_index
from elmo_model.text.files import lines_of
from tests.support.servers import running

Query = tuple[list[str], int, NDArray[np.float32]]
"""A sentence, the number of a token in it, and the layers (L + 1, 2P) of the token."""

_COMMAND: Final = Path(sys.executable).with_name("elmo")
_NEAREST: Final = 10
_BLOCK: Final = 16_384  # tokens whose vectors are in memory at once for the exact search


def write_text(path: Path, tokens: int, target: Path) -> None:
    """Write the first lines of a text with so many tokens."""
    left = tokens
    with target.open("w", encoding="utf-8") as out:
        for line in lines_of(path):
            if left <= 0:
                break
            out.write(f"{line}\n")
            left -= len(line.split())


def index(text: Path, folder: Path, options: argparse.Namespace) -> None:
    """Run `elmo index`; print its time, its peak memory and the size of the index."""
    start = time.perf_counter()
    command = [_COMMAND, "index", text, folder, "--tokenised", "--model", options.model]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(done.stdout.strip())
    print(f"{seconds:.0f} s, peak memory {peak:,.0f} MiB, {size / 1e9:.2f} GB on the disk\n")


def queries_of(path: Path, model: str, count: int) -> list[Query]:
    """Return random tokens of a text with their layers."""
    encoder, source = Encoder.of(open_model(model)), random.Random(0)
    sentences = [line.split() for line in lines_of(path) if 5 <= len(line.split()) <= 40]
    found = []
    for sentence in source.sample(sentences, min(count, len(sentences))):
        token = source.randrange(len(sentence))
        found.append((sentence, token, encoder.embed([sentence])[0][:, token].numpy()))
    return found


def exact(
    found: NeighbourIndex, queries: Sequence[Query], shares: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the cosines of the nearest tokens by the stored vectors, (queries, 10)."""
    wanted = np.stack([shares @ (layers - found.centre) for _, _, layers in queries])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    best = np.full((len(queries), _NEAREST), -1, np.float32)
    for start in range(0, found.info.tokens, _BLOCK):
        tokens = np.arange(start, min(start + _BLOCK, found.info.tokens))
        vectors = found.mixed(tokens, shares)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-20)
        both = np.concatenate([best, wanted @ vectors.T], axis=1)
        best = -np.partition(-both, _NEAREST - 1, axis=1)[:, :_NEAREST]
    return -np.sort(-best, axis=1)


def recall(found: NeighbourIndex, queries: Sequence[Query], shares: Sequence[float]) -> float:
    """Return the share of the nearest tokens that a search finds.

    Two tokens with the same cosine are as near as each other, so cosines are compared.
    """
    weights = np.asarray(shares, np.float32)
    true = exact(found, queries, weights)
    hits = 0
    for (_, _, layers), cosines in zip(queries, true, strict=True):
        tokens = found.candidates(layers, shares, _NEAREST)
        own = np.sort(-found.cosines(tokens, layers, shares))[:_NEAREST]
        hits += int((-own >= cosines[-1] - 1e-5).sum())
    return hits / true.size


def searches(
    found: NeighbourIndex, queries: Sequence[Query], shares: Sequence[float]
) -> list[float]:
    """Return the milliseconds of each search."""
    times = []
    for sentence, token, layers in queries:
        start = time.perf_counter()
        found.uses(layers, shares, _NEAREST, sentence)
        found.nearest_words(layers[0], _NEAREST, sentence[token])
        times.append(1e3 * (time.perf_counter() - start))
    return times


@contextmanager
def served(folder: Path, model: str) -> Iterator[str]:
    """Start a server over an index and yield its address."""
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name), model=model, index=folder) as server,
    ):
        yield server.url


def requests(url: str, queries: Sequence[Query], body: dict[str, object]) -> list[float]:
    """Return the milliseconds of each request, from a client that keeps its connection."""
    import httpx  # noqa: PLC0415 - not for the other columns

    times = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for sentence, token, _ in queries:
            start = time.perf_counter()
            request = {"tokens": sentence, "token": token, "k": _NEAREST, **body}
            client.post("/neighbours", json=request).raise_for_status()
            times.append(1e3 * (time.perf_counter() - start))
    return times


def selections(layers: int) -> Iterator[tuple[str, tuple[float, ...], dict[str, object]]]:
    """Yield the name, the shares and the request of each row."""
    for layer in range(layers):
        yield f"layer {layer}", tuple(float(layer == i) for i in range(layers)), {"layers": layer}
    yield "average", (1 / layers,) * layers, {"layers": "average"}
    weights = [0.5 * number for number in range(layers)]
    shares = np.exp(weights) / np.exp(weights).sum()
    yield "mixture", tuple(shares.tolist()), {"mix": {"weights": weights}}


def measure(folder: Path, options: argparse.Namespace) -> bool:
    """Print the table of searches; return whether all targets are met."""
    found = open_index(folder)
    queries = queries_of(options.queries, options.model, options.searches)
    torch.set_num_threads(1)
    print("| compared | recall at 10 | search, median | p99 | request, median | p99 |")
    print("|---|--:|--:|--:|--:|--:|")
    is_met = True
    with served(folder, options.model) as url:
        for name, shares, body in selections(len(found.centre)):
            share = recall(found, queries[: options.recalls], shares)
            searches(found, queries[:20], shares)
            alone = np.percentile(searches(found, queries, shares), [50, 99])
            requests(url, queries[:20], body)
            whole = np.percentile(requests(url, queries, body), [50, 99])
            times = " | ".join(f"{value:.1f} ms" for value in (*alone, *whole))
            print(f"| {name} | {share:.3f} | {times} |", flush=True)
            is_met = is_met and share > 0.95 and alone[1] <= 20
    return is_met


def main() -> int:
    """Print the tables; the status is 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--model", default="english")
    parser.add_argument("--searches", type=int, default=500, help="for the times")
    parser.add_argument("--recalls", type=int, default=200, help="queries for the recall")
    options = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "index"
        if not (folder / "index.json").exists():
            write_text(options.text, options.tokens, Path(name) / "text")
            index(Path(name) / "text", folder, options)
        is_met = measure(folder, options)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
