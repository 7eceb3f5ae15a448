"""Word vectors as safetensors: `vectors` (N, width), and `words`, their UTF-8 with newlines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from elmo_model.word_vectors.map_writer import MapWriter
from elmo_model.word_vectors.source import Source, WordVectorsError, check_width


def is_tensors(head: bytes) -> bool:
    """Tell whether a file begins as safetensors do: 8 bytes of length, then a JSON object."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def read_tensors(source: Source, writer: MapWriter) -> None:
    """Add every word of a file to a map. Raises WordVectorsError for other tensors."""
    try:
        tensors = load(source.rest())
    except SafetensorError as error:
        raise WordVectorsError(f"{source.path}: is not whole safetensors: {error}") from error
    except KeyError as error:  # a type that NumPy lacks, such as BF16
        raise WordVectorsError(
            f"{source.path}: holds numbers of the type {error.args[0]}, expected the tensors "
            "vectors, of float16, float32 or float64, and words"
        ) from error
    words, vectors = _checked(tensors, source.path)
    if not np.isfinite(vectors).all():
        raise WordVectorsError(f"{source.path}: a number is not finite")
    for word, row in zip(words, vectors.astype(np.float32), strict=True):
        writer.add(word, row)


def tensors_of(words: list[bytes], vectors: NDArray[np.float32]) -> bytes:
    """Return a file for N words without newlines and their vectors (N, width)."""
    text = np.frombuffer(b"\n".join(words), np.uint8)
    return save({"words": text, "vectors": np.ascontiguousarray(vectors)})


def _checked(tensors: Mapping[str, NDArray[Any]], path: Path) -> tuple[list[bytes], NDArray[Any]]:
    names = sorted(tensors)
    if names != ["vectors", "words"]:
        raise WordVectorsError(
            f"{path}: has the tensors {', '.join(names)[:80]}; expected vectors and words"
        )
    vectors, text = tensors["vectors"], tensors["words"]
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or text.dtype != np.uint8:
        raise WordVectorsError(
            f"{path}: vectors is {vectors.shape} of {vectors.dtype} and words of {text.dtype}, "
            "expected two dimensions of floats, and uint8"
        )
    check_width(path, vectors.shape[1])
    words = text.tobytes().split(b"\n") if len(vectors) else []
    if len(words) != len(vectors):
        raise WordVectorsError(f"{path}: has {len(words)} words and {len(vectors)} vectors")
    return words, vectors
