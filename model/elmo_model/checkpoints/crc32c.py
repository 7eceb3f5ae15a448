"""CRC-32C, the checksum of TensorFlow's files, over arrays of any size.

The sum goes byte by byte, but it is linear: stretches of the data go side by side, and the sum of
A before B is that of A, moved on by as many zeros as B has bytes, xor that of B.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

_Sums = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
_STRETCH = 1024  # bytes
_SHORT = 8192  # bytes, below which a plain loop is the faster one
_ONES = 0xFFFFFFFF  # at the start and over the result
_MASK = 0xA282EAD8


def masked(content: bytes) -> int:
    """Return the checksum as TensorFlow stores it, turned so that it can itself be summed."""
    plain = crc32c(content)
    return (((plain >> 15) | (plain << 17)) + _MASK) & 0xFFFFFFFF


def crc32c(content: bytes) -> int:
    """Return the checksum of bytes."""
    if len(content) <= _SHORT:
        return _one_by_one(content)
    data = np.frombuffer(content, dtype=np.uint8)
    rest = len(data) % _STRETCH
    first = np.zeros((1, _STRETCH), np.uint8)  # zeros in front change no sum that starts at zero
    first[0, _STRETCH - rest :] = data[:rest]
    sums = np.concatenate((_sums(first), _sums(data[rest:].reshape(-1, _STRETCH))))
    span = _STRETCH
    while len(sums) > 1:
        if len(sums) % 2:
            sums = np.concatenate((np.zeros(1, np.uint32), sums))
        sums = _moved(sums[::2], span) ^ sums[1::2]
        span *= 2
    start = _moved(np.array([_ONES], np.uint32), len(data))
    return int(sums[0] ^ start[0]) ^ _ONES


def _one_by_one(content: bytes) -> int:
    table: list[int] = _table().tolist()
    total = _ONES
    for byte in content:
        total = table[(total ^ byte) & 255] ^ total >> 8
    return total ^ _ONES


def _sums(stretches: NDArray[np.uint8]) -> _Sums:
    """Map (n, bytes) to (n,): the sum of each stretch, from zero."""
    sums = np.zeros(len(stretches), np.uint32)
    for column in stretches.T:
        sums = _after_a_byte(sums, column)
    return sums


def _after_a_byte(sums: _Sums, byte: NDArray[np.uint8] | np.uint8) -> _Sums:
    moved: _Sums = _table()[(sums ^ byte) & 255] ^ (sums >> np.uint32(8))
    return moved


def _moved(sums: _Sums, zeros: int) -> _Sums:
    """Map (n,) sums to those after as many bytes of zero."""
    for power in range(zeros.bit_length()):
        if zeros >> power & 1:
            sums = _applied(_step(power), sums)
    return sums


@cache
def _step(power: int) -> _Sums:
    """Return what each bit of a sum becomes after 2 ** power bytes of zero, (32,)."""
    if power:
        half = _step(power - 1)
        return _applied(half, half)
    bits: _Sums = np.uint32(1) << np.arange(32, dtype=np.uint32)
    return _after_a_byte(bits, np.uint8(0))


def _applied(step: _Sums, sums: _Sums) -> _Sums:
    result = np.zeros_like(sums)
    for bit, becomes in enumerate(step):
        result ^= np.where(sums >> np.uint32(bit) & 1, becomes, np.uint32(0))
    return result


@cache
def _table() -> _Sums:
    """Return what each byte adds, (256,)."""
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = entries & 1
        entries = (entries >> np.uint32(1)) ^ (odd.astype(np.uint32) * np.uint32(_POLYNOMIAL))
    return entries
