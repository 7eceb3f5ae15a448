"""What the language model of a model knows: garden paths, and words that are left out.

The sentences below were written before any model was asked. A garden path leads to a wrong
reading until its disambiguating word: forward surprisal should peak there. A cloze sentence has one
likely word in the gap: it should be among the first ten substitutes of both directions.

    .venv/bin/python -m benchmarks.language_model --model MODEL
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.machine import describe
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


def main() -> None:
    """Print the sentences, their peaks and substitutes, and the shares."""
    parser = argparse.ArgumentParser(
        description="Prints the share of ten garden paths whose forward surprisal peaks at the "
        "disambiguating word, and of twenty cloze sentences whose word is among ten substitutes."
    )
    parser.add_argument("--model", default="english", help="name or path, with a softmax")
    parser.add_argument("--softmax", type=Path, help="its softmax, where it lies apart")
    arguments = parser.parse_args()
    print(describe())
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


if __name__ == "__main__":
    main()
