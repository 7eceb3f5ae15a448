"""Few different row counts: oneDNN writes a program for each, which can cost more than a product.

It keeps about a thousand. Sentences of all lengths give a time step any number of rows, and a batch
any number of new words; with every count as it comes, most products of mixed traffic would wait for
a program to be written, and memory would grow until the thousand are there.
"""

from collections.abc import Callable

RoundUp = Callable[[int], int]


def as_they_are(rows: int) -> int:
    """Return the same number: where gradients are recorded, or no program is written."""
    return rows


def in_steps(rows: int) -> int:
    """Return the next of some 65 numbers up to 400, at most a third more."""
    if rows <= 8:
        return rows
    width = 4 if rows <= 64 else 8
    return -(-rows // width) * width


def four_at_least(rows: int) -> int:
    """Return the same as `in_steps`, and 4 for fewer.

    oneDNN reads float32 weights that lie in memory faster for four to six rows than for fewer: 19
    GB a second and core, where one row gets 15 and two get 13. Fewer bits, or weights in a cache,
    are no faster so.
    """
    return in_steps(max(rows, 4)) if rows else 0


def in_strides(rows: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ...: half more at most."""
    if rows <= 2:
        return rows
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if rows <= power * 3 // 4 else power
