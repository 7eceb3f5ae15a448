"""`elmo look`: the uses of a word in some sentences, their cosines in each layer, and a table.

Tokens and vectors come from a server, or from a model in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_client import Client
from elmo_model.errors import ElmoError
from elmo_model.inference.centre import stated_or_computed
from elmo_serve.models.in_process import InProcess
from elmo_serve.selection import select

_BAR = 10  # characters of a cosine of 1

Tokens = list[str]
Place = tuple[int, int | None]
"""The number of a sentence, and that of a token in it; None for the mean over its tokens."""


class LookError(ElmoError):
    """There is nothing to compare. The text has the reason."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The compared places of some sentences: a word in them, or all of each.

    `cosines` has the cosine of each pair of places by layer, and for the mean of the layers.
    """

    word: str | None
    sentences: Sequence[Tokens]
    places: Sequence[Place]
    cosines: Mapping[str, Sequence[float]]
    centred: bool

    @property
    def title(self) -> str:
        """What is compared, in words."""
        subject = "sentences" if self.word is None else f'uses of "{self.word}"'
        return f"Cosine of {subject}" + (", centred" if self.centred else "")

    @property
    def names(self) -> list[str]:
        """The number of each place and its sentence, with the word in brackets."""
        return [
            f"{number} {_marked(self.sentences[sentence], token)}"
            for number, (sentence, token) in enumerate(self.places, 1)
        ]

    def pairs(self) -> dict[str, dict[str, float]]:
        """Return the cosines of each pair, such as "1 and 2", by layer."""
        names = combinations(range(1, len(self.places) + 1), 2)
        return {
            f"{one} and {two}": {
                _layer(name): values[number] for name, values in self.cosines.items()
            }
            for number, (one, two) in enumerate(names)
        }

    def as_json(self) -> dict[str, Any]:
        """Return all of it as members of JSON; tokens are counted from 0."""
        return {
            "word": self.word,
            "centred": self.centred,
            "sentences": self.sentences,
            "places": [{"sentence": one, "token": two} for one, two in self.places],
            "pairs": self.pairs(),
        }


@dataclass(frozen=True, slots=True)
class Source:
    """Splits texts into tokens and computes their vectors.

    `tokens` returns the tokens of each text, `layers` the layers (L + 1, n, 2P) of each sentence,
    `centre` the mean of each layer (L + 1, 2P) over a text that comes with the program.
    """

    tokens: Callable[[Sequence[str]], list[Tokens]]
    layers: Callable[[Sequence[Tokens]], Sequence[NDArray[Any]]]
    centre: Callable[[], NDArray[Any]]


def look(source: Source, texts: Sequence[str], word: str | None, *, centred: bool) -> Uses:
    """Compare the uses of a word, or without a word the means of the sentences.

    The word is a token in any case: "Bank" and "bank" are uses of one word. Raises LookError where
    there are fewer than two places.
    """
    sentences = source.tokens(texts)
    places: list[Place] = [(number, None) for number, each in enumerate(sentences) if each]
    if word is not None:
        places = [
            (number, place)
            for number, sentence in enumerate(sentences)
            for place, token in enumerate(sentence)
            if token.casefold() == word.casefold()
        ]
    if len(places) < 2:
        what = "sentences with tokens" if word is None else f'uses of "{word}"'
        raise LookError(f"found {len(places)} {what}, expected two or more to compare")
    layers = source.layers(sentences)
    vectors = [
        layers[number].mean(axis=1) if token is None else layers[number][:, token]
        for number, token in places
    ]
    found = cosines(np.asarray(vectors, np.float64), source.centre() if centred else None)
    return Uses(word, sentences, places, found, centred)


def cosines(vectors: NDArray[np.float64], centre: NDArray[Any] | None) -> dict[str, list[float]]:
    """Map the layers of N places (N, L + 1, 2P) to the cosine of each pair of them, by layer.

    `centre` (L + 1, 2P) is subtracted first. The keys are the numbers of the layers and "average",
    the mean of the layers. The pairs are in the order of `itertools.combinations`. The cosine is 0
    where a vector is zero.
    """
    if centre is not None:
        vectors = vectors - centre
    with_average = np.concatenate([vectors, vectors.mean(axis=1, keepdims=True)], axis=1)
    lengths = np.linalg.norm(with_average, axis=-1, keepdims=True)
    unit = with_average / np.where(lengths, lengths, 1)
    one, two = np.triu_indices(len(vectors), 1)
    found: NDArray[Any] = (unit[one] * unit[two]).sum(axis=-1).clip(-1, 1)
    names = [*map(str, range(vectors.shape[1])), "average"]
    return {name: found[:, number].tolist() for number, name in enumerate(names)}


def _marked(sentence: Tokens, token: int | None) -> str:
    return " ".join(f"[{each}]" if place == token else each for place, each in enumerate(sentence))


def _layer(name: str) -> str:
    return f"layer {name}" if name.isdecimal() else name


def rows(found: Uses) -> list[list[str]]:
    """Return the cells of a table: a row for each pair, with a bar for each layer."""
    pairs = found.pairs()
    heading = ["pair", *next(iter(pairs.values()))]
    cells = {
        pair: [f"{value:6.3f} {bar(value)}" for value in values.values()]
        for pair, values in pairs.items()
    }
    return [heading, *([pair, *each] for pair, each in cells.items())]


def bar(cosine: float) -> str:
    """Return a bar for a cosine; a hollow one is negative."""
    return ("█" if cosine >= 0 else "░") * round(_BAR * abs(cosine))


def source_of_server(client: Client, tokenizer: str | None) -> Source:
    """Return a source that asks a server. Its functions raise ElmoError."""

    def tokens(texts: Sequence[str]) -> list[Tokens]:
        return [list(each.tokens) for each in client.tokenize(texts, tokenizer=tokenizer)]

    return Source(tokens, client.embed, client.centre)


def source_of_model(network: InProcess, tokenizer: str | None) -> Source:
    """Return a source that computes in this process. `tokens` raises TokenizeError."""
    split = network.tokenizer(tokenizer)

    def tokens(texts: Sequence[str]) -> list[Tokens]:
        return [list(split(text).tokens) for text in texts]

    def layers(sentences: Sequence[Tokens]) -> Sequence[NDArray[Any]]:
        return network.embed(sentences, select("all", network.info.layers))

    def centre() -> NDArray[Any]:
        return stated_or_computed(network.encoder, network.batch_tokens).layers

    return Source(tokens, layers, centre)
