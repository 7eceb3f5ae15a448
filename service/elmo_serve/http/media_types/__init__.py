"""Media types of vectors: one file each, and one table."""

from elmo_serve.http.media_types import json_text, npz, safetensors
from elmo_serve.http.media_types.encoder import Encoder

ENCODERS: dict[str, Encoder] = {
    encoder.media_type: encoder for encoder in (json_text.ENCODER, npz.ENCODER, safetensors.ENCODER)
}
"""By media type. The first one wins where a client accepts several equally."""
