"""Labelled examples: tokens or sentences, each with one label."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from elmo_model.errors import ElmoError, counted, shown

Kind = Literal["token", "sentence"]


class FitError(ElmoError):
    """Examples or options that nothing can be learned from; the message names the place."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled sentences: an example is each of their tokens, or each of them as a whole.

    `labels[i]` are the labels of sentence i: one a token, or a single one. With `are_spans` the
    labels of tokens are IOB2.
    """

    kind: Kind
    sentences: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    are_spans: bool = False

    def __len__(self) -> int:
        return sum(map(len, self.labels))

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({label for labels in self.labels for label in labels}))

    @classmethod
    def of_tokens(
        cls, tagged: Iterable[tuple[Sequence[str], Sequence[str]]], *, are_spans: bool = False
    ) -> "Examples":
        """Make one example of every token of sentences that have a label for each token.

        Raises FitError where a sentence has another number of labels than of tokens.
        """
        sentences, labels = list[tuple[str, ...]](), list[tuple[str, ...]]()
        for number, (tokens, tags) in enumerate(tagged):
            if len(tokens) != len(tags):
                found = f"{counted(len(tokens), 'token')} and {counted(len(tags), 'label')}"
                raise FitError(f"sentence {number} has {found}, expected one label a token")
            sentences.append(tuple(tokens))
            labels.append(tuple(tags))
        return cls("token", tuple(sentences), tuple(labels), are_spans)

    @classmethod
    def of_sentences(cls, labelled: Iterable[tuple[Sequence[str], str]]) -> "Examples":
        """Make one example of every sentence: the mean over its tokens."""
        pairs = [(tuple(tokens), (label,)) for tokens, label in labelled]
        sentences, labels = zip(*pairs, strict=True) if pairs else ((), ())
        return cls("sentence", sentences, labels)

    def check(self, part: str) -> None:
        """Raise FitError where there is no example, or none of a second label to tell apart."""
        counts = Counter(label for labels in self.labels for label in labels)
        if not counts:
            raise FitError(f"{part}: holds no example")
        if len(counts) < 2:
            (label,) = counts
            raise FitError(
                f"{part}: every example has the label {shown(label)}, expected two labels or more"
            )

    def take(self, numbers: Sequence[int]) -> "Examples":
        """Return the sentences of these numbers with their labels."""
        sentences = tuple(self.sentences[number] for number in numbers)
        labels = tuple(self.labels[number] for number in numbers)
        return Examples(self.kind, sentences, labels, self.are_spans)
