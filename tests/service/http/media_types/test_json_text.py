"""JSON: digits that read back as the same number."""

import json

import numpy as np
import pytest

from elmo_serve.http.media_types import json_text
from tests.support.embeddings import body

JSON = json_text.ENCODER.media_type


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_number_survives_json(dtype: str) -> None:
    bits = np.dtype({"float32": "uint32", "float16": "uint16"}[dtype])
    patterns = np.random.default_rng(1).integers(
        0, np.iinfo(bits).max, 100_000, bits, endpoint=True
    )
    numbers = patterns.view(dtype)
    numbers = numbers[np.isfinite(numbers)]
    edges = np.array([0.0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny, 1e-45], dtype)
    numbers = np.concatenate([numbers, edges])

    text = json.loads(body(JSON, [numbers[None]]))["embeddings"][0][0]

    np.testing.assert_array_equal(np.asarray(text, dtype).view(bits), numbers.view(bits))
