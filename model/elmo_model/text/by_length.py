"""Batches of sentences of similar length, bounded by their tokens."""

from collections.abc import Iterable, Iterator, Sequence, Sized

BOUNDARIES = 2
"""Boundary tokens of a sentence, begin and end: the queue and batches count them as tokens."""


def by_length(
    numbers: Iterable[int], sentences: Sequence[Sized], max_tokens: int
) -> Iterator[list[int]]:
    """Yield sentence numbers, longest first, in batches of nearly equal token counts.

    The two boundary tokens of each sentence count. Only a batch of one sentence may exceed
    `max_tokens`. There is no small last batch, which would take as many time steps as a full one.
    """
    order = sorted(numbers, key=lambda number: -len(sentences[number]))
    left = sum(len(sentences[number]) + BOUNDARIES for number in order)
    count = max(1, -(-left // max_tokens))
    batch: list[int] = []
    tokens = 0
    for number in order:
        cost = len(sentences[number]) + BOUNDARIES
        if batch and (tokens + cost > max_tokens or tokens + cost / 2 > left / count):
            yield batch
            left, count = left - tokens, max(1, count - 1)
            batch, tokens = [], 0
        batch.append(number)
        tokens += cost
    if batch:
        yield batch
