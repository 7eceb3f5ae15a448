"""The cosines of pairs by layer: the numbers of `POST /similarity` and of `elmo look`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

AVERAGE = "average"
"""The name of the cosine between the means of the layers."""


def cosines(sides: NDArray[np.float64], centre: NDArray[Any] | None) -> dict[str, list[float]]:
    """Map the sides of pairs (2 x pairs, L + 1, 2P) to the cosine of each pair, by layer.

    Rows 0 and 1 are the first pair. `centre` (L + 1, 2P) is subtracted first. The keys are the
    numbers of the layers and `AVERAGE`. The cosine is 0 where a vector is zero.
    """
    if centre is not None:
        sides = sides - centre
    with_average = np.concatenate([sides, sides.mean(axis=1, keepdims=True)], axis=1)
    lengths = np.linalg.norm(with_average, axis=-1, keepdims=True)
    unit = with_average / np.where(lengths, lengths, 1)
    found: NDArray[Any] = (unit[0::2] * unit[1::2]).sum(axis=-1).clip(-1, 1)
    names = [*map(str, range(sides.shape[1])), AVERAGE]
    return {name: found[:, number].tolist() for number, name in enumerate(names)}
