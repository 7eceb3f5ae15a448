"""Labelled examples: tokens, sentences or pairs, each with one label."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from elmo_model.errors import ElmoError, counted, shown

Kind = Literal["token", "sentence", "pair"]


class FitError(ElmoError):
    """Examples or options that nothing can be learned from; the message names the place."""


class Place(NamedTuple):
    """A token of a sentence by its number, or the mean over the sentence where `token` is None."""

    sentence: int
    token: int | None = None


Side = tuple[Sequence[str], int | None]
"""The tokens of a sentence, and the number of one of them; None for their mean."""


@dataclass(frozen=True, slots=True)
class Examples:
    """N labelled examples over some sentences.

    `places[i]` has one place, or two for a pair; `labels[i]` is its label. `groups[i]` numbers the
    sentence that example i belongs to: examples of one group are never split into two parts.
    """

    kind: Kind
    sentences: tuple[tuple[str, ...], ...]
    places: tuple[tuple[Place, ...], ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def groups(self) -> list[int]:
        """The number of the first sentence of each example."""
        return [places[0].sentence for places in self.places]

    def by_sentence(self, values: Sequence[str]) -> list[list[str]]:
        """Return a value of each example in one list a sentence, such as labels."""
        pairs = groupby(zip(self.groups, values, strict=True), key=itemgetter(0))
        return [[value for _, value in pair] for _, pair in pairs]

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted(set(self.labels)))

    @classmethod
    def of_tokens(cls, tagged: Iterable[tuple[Sequence[str], Sequence[str]]]) -> "Examples":
        """Make one example of every token of sentences that have a label for each token.

        Raises FitError where a sentence has another number of labels than of tokens.
        """
        sentences: list[tuple[str, ...]] = []
        places: list[tuple[Place, ...]] = []
        labels: list[str] = []
        for number, (tokens, tags) in enumerate(tagged):
            if len(tokens) != len(tags):
                found = f"{counted(len(tokens), 'token')} and {counted(len(tags), 'label')}"
                raise FitError(f"sentence {number} has {found}, expected one label a token")
            sentences.append(tuple(tokens))
            places += [(Place(number, token),) for token in range(len(tokens))]
            labels += tags
        return cls("token", tuple(sentences), tuple(places), tuple(labels))

    @classmethod
    def of_sentences(cls, labelled: Iterable[tuple[Sequence[str], str]]) -> "Examples":
        """Make one example of every sentence: the mean over its tokens."""
        return cls._of("sentence", (([(tokens, None)], label) for tokens, label in labelled))

    @classmethod
    def of_words(cls, labelled: Iterable[tuple[Sequence[str], int, str]]) -> "Examples":
        """Make one example of one token of every sentence."""
        return cls._of("token", (([(tokens, token)], label) for tokens, token, label in labelled))

    @classmethod
    def of_pairs(cls, labelled: Iterable[tuple[Side, Side, str]]) -> "Examples":
        """Make one example of every pair of sentences, or of one token in each of the two."""
        return cls._of("pair", (([first, second], label) for first, second, label in labelled))

    @classmethod
    def _of(cls, kind: Kind, labelled: Iterable[tuple[Sequence[Side], str]]) -> "Examples":
        sentences: list[tuple[str, ...]] = []
        places, labels = [], []
        for sides, label in labelled:
            first = len(sentences)
            places.append(tuple(Place(first + i, token) for i, (_, token) in enumerate(sides)))
            sentences += (tuple(tokens) for tokens, _ in sides)
            labels.append(label)
        return cls(kind, tuple(sentences), tuple(places), tuple(labels))

    def check(self, part: str) -> None:
        """Raise FitError where there is no example, or none of a second label to tell apart."""
        if not self.labels:
            raise FitError(f"{part}: holds no example")
        if len(counts := Counter(self.labels)) < 2:
            (label,) = counts
            raise FitError(
                f"{part}: every example has the label {shown(label)}, expected two labels or more"
            )

    def take(self, numbers: Sequence[int]) -> "Examples":
        """Return the examples of these numbers over the same sentences."""
        places = tuple(self.places[number] for number in numbers)
        return Examples(
            self.kind, self.sentences, places, tuple(self.labels[number] for number in numbers)
        )
