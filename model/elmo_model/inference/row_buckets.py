"""Row buckets: few different row counts, because oneDNN compiles a program for each.

Compiling can cost more than the product. oneDNN keeps about a thousand programs. Sentences of all
lengths give a time step any number of rows, and a batch any number of new words; without buckets
most products of mixed traffic would wait for a program, and memory would grow until a thousand are
kept.
"""

from elmo_model.network.token_embedder import RoundUp


def exactly(rows: int) -> int:
    """Return the same number: for devices that compile no program."""
    return rows


def in_steps(rows: int) -> int:
    """Return the next of about 65 numbers up to 400, at most a third more."""
    if rows <= 8:
        return rows
    width = 4 if rows <= 64 else 8
    return -(-rows // width) * width


def four_at_least(rows: int) -> int:
    """Return the same as `in_steps`, and 4 for 1 to 3 rows.

    oneDNN reads float32 weights from memory faster for four to six rows than for fewer: 19 GB a
    second and core, against 15 for one row and 13 for two (2 cores of an AMD EPYC, Zen 4). Weights
    with fewer bits, or in a cache, gain nothing from it.
    """
    return in_steps(max(rows, 4)) if rows else 0


def in_strides(rows: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ...: at most half more."""
    if rows <= 2:
        return rows
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if rows <= power * 3 // 4 else power


__all__ = ["RoundUp", "exactly", "four_at_least", "in_steps", "in_strides"]
