"""Sizes of networks by name: `tiny` for tests, `half` for a CPU, and the published sizes."""

from elmo_model.alphabets import Utf8Alphabet
from elmo_model.config import CharCNNConfig, ElmoConfig, LSTMConfig

_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
_FEWER = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128))


def _shape(
    cell: int, projection: int, highways: int, filters: tuple[tuple[int, int], ...] = _FILTERS
) -> ElmoConfig:
    return ElmoConfig(
        CharCNNConfig(Utf8Alphabet.size, 16, filters, highways, "relu", 50),
        LSTMConfig(2, cell, projection, 3.0, 3.0, skip=True),
    )


SHAPES = {
    "tiny": _shape(256, 64, 1, ((1, 16), (2, 16), (3, 32), (4, 64))),
    "half": _shape(768, 192, 1, _FEWER),
    "small": _shape(1024, 128, 1),
    "medium": _shape(2048, 256, 1),
    "original": _shape(4096, 512, 2),
}
DEFAULT_SHAPE = "small"
