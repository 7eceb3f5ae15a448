"""Batches of sentences of similar length, bounded by their tokens."""

from collections.abc import Iterable, Iterator, Sequence, Sized

_BOUNDARIES = 2


def by_length(
    numbers: Iterable[int], sentences: Sequence[Sized], most_tokens: int
) -> Iterator[list[int]]:
    """Yield sentence numbers in order of length, in batches of at most `most_tokens` tokens.

    The two boundary tokens of each sentence count. A longer sentence is a batch by itself.
    """
    batch: list[int] = []
    tokens = 0
    for number in sorted(numbers, key=lambda number: len(sentences[number])):
        cost = len(sentences[number]) + _BOUNDARIES
        if batch and tokens + cost > most_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(number)
        tokens += cost
    if batch:
        yield batch
