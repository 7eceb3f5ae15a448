"""Batches of sentences of similar length, bounded by their tokens."""

from collections.abc import Iterable, Iterator, Sequence, Sized

BOUNDARIES = 2
"""Boundary tokens of a sentence, begin and end: the queue and batches count them as tokens."""


def by_length(
    numbers: Iterable[int], sentences: Sequence[Sized], max_tokens: int
) -> Iterator[list[int]]:
    """Yield sentence numbers in order of length, in batches of at most `max_tokens` tokens.

    The two boundary tokens of each sentence count. A longer sentence is a batch by itself.
    """
    batch: list[int] = []
    tokens = 0
    for number in sorted(numbers, key=lambda number: len(sentences[number])):
        cost = len(sentences[number]) + BOUNDARIES
        if batch and tokens + cost > max_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(number)
        tokens += cost
    if batch:
        yield batch


def evenly(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield sentence numbers, longest first, in batches of nearly equal token counts.

    `lengths` and `budget` are in tokens, `lengths` without the two boundaries, which count. Only a
    batch of one sentence may exceed the budget. `by_length` leaves a small last batch, which takes
    as many time steps as a full one; here there is none.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    left = sum(lengths) + BOUNDARIES * len(lengths)
    count = max(1, -(-left // budget))
    batch: list[int] = []
    tokens = 0
    for row in order:
        cost = lengths[row] + BOUNDARIES
        if batch and (tokens + cost > budget or tokens + cost / 2 > left / count):
            yield batch
            left, count = left - tokens, max(1, count - 1)
            batch, tokens = [], 0
        batch.append(row)
        tokens += cost
    if batch:
        yield batch
