"""What the language model of a model knows: garden paths, and words that are left out.

The sentences below were written before any model was asked. A garden path leads to a wrong
reading until its disambiguating word: forward surprisal should peak there. A cloze sentence has one
likely word in the gap: it should be among the first ten substitutes of both directions.

    .venv/bin/python -m benchmarks.language_model --model MODEL
    .venv/bin/python -m benchmarks.language_model --speed TEXT

The second command times vectors alone and scores in turns, on the sentences of a text: with the
softmax of `english`, and with random ones of 50,000 words over a random network of the original's
size.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import inputs
from benchmarks.machine import describe
from elmo_model.checkpoints import softmax
from elmo_model.models.opening import open_model
from elmo_model.network.elmo import ElmoNetwork
from elmo_model.text.alphabets import WordVocabulary
from elmo_model.text.batches import by_length
from elmo_model.text.tokenizers import tokenizer
from elmo_serve.output import Scores
from elmo_serve.workers.language import LanguageModel

# The disambiguating word of each sentence is in brackets.
GARDEN_PATHS = (
    "The horse raced past the barn [fell] .",
    "The old man [the] boats .",
    "While the man hunted the deer [ran] into the woods .",
    "When the dog scratched the vet [took] off the muzzle .",
    "The florist sent the flowers [was] very pleased .",
    "Since Jay always jogs a mile [seems] like a short distance to him .",
    "The coach smiled at the player tossed [the] frisbee .",
    "After the child visited the doctor [prescribed] a course of injections .",
    "The lawyer warned the judge was corrupt [resigned] .",
    "As the woman edited the magazine [amused] all the reporters .",
)

# The word that is expected is in brackets.
CLOZE = (
    "He drank a cup of [tea] and read the newspaper .",
    "The children went to [school] in the morning .",
    "She opened the [door] and walked into the room .",
    "The sun rises in the [east] .",
    "They crossed the river by a [bridge] .",
    "The king and the [queen] lived in the palace .",
    "He wrote a [letter] to his mother .",
    "The ship sailed across the [sea] .",
    "Winter is the coldest [season] of the year .",
    "She was [born] in London in 1880 .",
    "The capital of [France] is Paris .",
    "He sat down at the [table] and began to eat .",
    "The doctor told the [patient] to stay in bed .",
    "The war came to an [end] in 1945 .",
    "The train arrived at the [station] on time .",
    "He put the money in his [pocket] .",
    "A year has twelve [months] .",
    "The soldiers attacked the [enemy] at dawn .",
    "She took a book from the [shelf] and sat down .",
    "The president of the United [States] spoke first .",
)

_K = 10

_WORDS = 50_000  # of the random softmax
_BATCH = 1_024  # tokens, as `elmo score` takes them


def main() -> None:
    """Print the sentences, their peaks and substitutes, and the shares."""
    parser = argparse.ArgumentParser(
        description="Prints the share of ten garden paths whose forward surprisal peaks at the "
        "disambiguating word, and of twenty cloze sentences whose word is among ten substitutes."
    )
    parser.add_argument("--model", default="english", help="name or path, with a softmax")
    parser.add_argument("--softmax", type=Path, help="its softmax, where it lies apart")
    parser.add_argument("--speed", type=Path, metavar="TEXT", help="time instead, on this text")
    parser.add_argument("--tokens", type=int, default=4_096, help="of the text that is timed")
    parser.add_argument("--rounds", type=int, default=5, help="the table has their median")
    arguments = parser.parse_args()
    print(describe())
    if arguments.speed is not None:
        _print_speeds(arguments)
        return
    network = LanguageModel.open(arguments.model, arguments.softmax, None, "cpu")
    peaks = [_peaks(network, *_marked(text)) for text in GARDEN_PATHS]
    found = [_among(network, *_marked(text)) for text in CLOZE]
    print(f"garden paths: {sum(peaks)} of {len(peaks)} peak at the disambiguating word")
    print(f"cloze: {sum(found)} of {len(found)} words are among the first {_K} substitutes")


def _marked(text: str) -> tuple[list[str], int]:
    """Return the tokens of a sentence, and the number of the one in brackets."""
    tokens = list(tokenizer("whitespace")(text).tokens)
    (place,) = [i for i, token in enumerate(tokens) if token.startswith("[")]
    return [token.strip("[]") for token in tokens], place


def _peaks(network: LanguageModel, tokens: list[str], place: int) -> bool:
    """Print a garden path; tell whether the surprisal of words after the first peaks at it."""
    (bits,) = network.results([tokens], [Scores()])
    ahead = bits[0, : len(tokens)].tolist()
    peak = max(range(1, len(tokens)), key=ahead.__getitem__)
    shown = " ".join(f"{token} {value:.1f}" for token, value in zip(tokens, ahead, strict=True))
    print(f"{'peak' if peak == place else 'miss'}  {shown}")
    return peak == place


def _among(network: LanguageModel, tokens: list[str], place: int) -> bool:
    """Print a cloze sentence with its substitutes; tell whether the word is among them."""
    layers = network.encode([tokens])[0]
    (words,) = network.scorer.substitutes(layers, [place], _K, "both")
    listed = [str(each["word"]) for each in words]
    is_found = tokens[place] in listed
    gap = " ".join([*tokens[:place], "___", *tokens[place + 1 :]])
    print(f"{'found' if is_found else 'miss '}  {tokens[place]}: {gap}  {' '.join(listed)}")
    return is_found


def _print_speeds(arguments: argparse.Namespace) -> None:
    """Print the tokens/s of vectors and of scores, and their ratio, for three models."""
    ascending, rounds = inputs.read(arguments.speed), arguments.rounds
    sample = ascending[:: max(1, sum(map(len, ascending)) // arguments.tokens)]
    print("| network | softmax | vectors, tokens/s | scores, tokens/s | share |")
    print("|---|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, inputs.checkpoint(None) as original:
        for dtype in (torch.float32, torch.int8):
            file = _random_softmax(open_model(original), dtype, Path(folder))
            network = LanguageModel.open(str(original), file, None, "cpu")
            _print_speed(f"original | {_WORDS:,} words, {dtype}", network, sample, rounds)
    network = LanguageModel.open(arguments.model, arguments.softmax, None, "cpu")
    _print_speed(f"{arguments.model} | its own", network, sample, rounds)


def _random_softmax(elmo: ElmoNetwork, dtype: torch.dtype, folder: Path) -> Path:
    """Write a random softmax for a network to a file, and return its path."""
    generator = torch.Generator().manual_seed(0)
    words = WordVocabulary(("<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(3, _WORDS))))
    weight = torch.randn(_WORDS, elmo.config.lstm.projection, generator=generator) / 4
    bias = torch.full((_WORDS,), -math.log(_WORDS))
    path = folder / f"random{softmax.ENDING}"
    made = softmax.WordSoftmax(weight, bias, words, _WORDS)
    softmax.save(made, path, elmo.origin.revision, dtype)
    return path


def _print_speed(
    name: str, network: LanguageModel, sample: list[inputs.Sentence], rounds: int
) -> None:
    """Time vectors and scores of all sentences in turns, and print one row."""
    batches = [[sample[i] for i in own] for own in by_length(range(len(sample)), sample, _BATCH)]
    tokens = sum(map(len, sample))

    def rate(work: Callable[[list[inputs.Sentence]], object]) -> float:
        start = time.perf_counter()
        for batch in batches:
            work(batch)
        return tokens / (time.perf_counter() - start)

    def scores(batch: list[inputs.Sentence]) -> object:
        return network.results(batch, [Scores()] * len(batch))

    with torch.inference_mode():
        rate(scores)  # fills the caches
        pairs = [(rate(network.encode), rate(scores)) for _ in range(rounds)]
    vectors, scored = (statistics.median(each) for each in zip(*pairs, strict=True))
    share = statistics.median(after / before for before, after in pairs)
    print(f"| {name} | {vectors:,.0f} | {scored:,.0f} | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
