"""The `sentence_to_index` of AllenNLP's files, made without its sentences in memory.

It is a JSON object that has each text once, where it first stood, with the number of its last
place. The texts wait in a temporary file; in memory is a digest of each, 16 bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class SentenceIndex:
    """Takes the texts in order, is asked once, and is to be closed."""

    def __init__(self, folder: Path) -> None:
        """Let the texts wait in `folder`, where the output goes: there is room, or none anyway."""
        self._texts = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `close`
        self._digests = bytearray()

    def add(self, text: str) -> None:
        """Take the text of the next sentence."""
        self._digests += hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()
        self._texts.write(json.dumps(text).encode("ascii") + b"\n")

    def json(self) -> bytes:
        """Return the object as `json.dumps` writes it, in ASCII."""
        numbers = _last_places(np.frombuffer(self._digests, "V16"))
        self._digests = bytearray()
        made = io.BytesIO()  # hands out what it holds, where joined pieces would be there twice
        self._texts.seek(0)
        separator = b"{"
        for text, number in zip(self._texts, numbers, strict=True):
            if number >= 0:
                made.write(b'%b%b: "%d"' % (separator, text[:-1], number))
                separator = b", "
        made.write(b"}" if made.tell() else b"{}")
        return made.getvalue()

    def close(self) -> None:
        """Let the texts go."""
        self._texts.close()


def _last_places(digests: NDArray[np.void]) -> NDArray[np.int64]:
    """Map (n,) digests to each one's last place where it stands first, and to -1 elsewhere."""
    halves = digests.view("<u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))  # stable: equal ones stay in their order
    is_new = np.ones(len(order), bool)
    is_new[1:] = (halves[order[1:]] != halves[order[:-1]]).any(1)
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(order)) - 1
    places = np.full(len(order), -1)
    places[order[firsts]] = order[lasts[: len(firsts)]]
    return places
