"""safetensors: tensors in place behind a header that is padded to 8 bytes."""

import json

import pytest

from elmo_serve.http.media_types import safetensors
from tests.support.embeddings import arrays, body, embeddings

MEDIA_TYPE = safetensors.ENCODER.media_type


@pytest.mark.parametrize("count", range(9))
def test_tensors_begin_at_a_multiple_of_8(count: int) -> None:
    data = body(MEDIA_TYPE, arrays(*[(3, 1, 4)] * count))

    assert int.from_bytes(data[:8], "little") % 8 == 0


def test_the_metadata_describe_the_model_and_the_layers() -> None:
    for layers, text in (((2, 0), "2,0"), (None, "")):
        head, *_ = safetensors.encode(embeddings(arrays((3, 2, 4)), layers))
        header = json.loads(bytes(head[8:]))

        assert header["__metadata__"] == {
            "model": "m",
            "revision": "r",
            "dimension": "4",
            "layers": text,
        }
        assert header["0"]["shape"] == [3, 2, 4]
