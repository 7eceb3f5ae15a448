"""The alignment: a matrix that maps mixed vectors to a space that several languages share."""

from torch import Tensor
from torch.nn import functional


def align(vectors: Tensor, matrix: Tensor | None) -> Tensor:
    """Map mixed vectors (..., 2P) by `matrix` (2P, 2P) to the shared space of aligned languages.

    Without a matrix the vectors are returned unchanged. Only mixes are aligned, never single layers
    (Schuster et al. 2019; AllenNLP 0.9 `elmo_token_embedder_multilang.py`).
    """
    return vectors if matrix is None else functional.linear(vectors, matrix)
