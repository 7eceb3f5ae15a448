"""Media types of vectors: one file each, one table, and the choice by the Accept header."""

from functools import lru_cache

from elmo_model.errors import shown
from elmo_serve.errors import NotAcceptable
from elmo_serve.http import headers
from elmo_serve.http.media_types import json_text, npz, safetensors
from elmo_serve.http.media_types.encoder import Encoder

ENCODERS: dict[str, Encoder] = {
    encoder.media_type: encoder for encoder in (json_text.ENCODER, npz.ENCODER, safetensors.ENCODER)
}
"""By media type. The first one wins where a client accepts several equally."""


@lru_cache(maxsize=64)  # clients send few different headers
def choose(accept: tuple[str, ...], among: tuple[str, ...] = ()) -> Encoder:
    """Return the encoder that the Accept headers prefer; JSON where they state no preference.

    `among` are the media types of a route that has not all of them. Raises NotAcceptable.
    """
    return ENCODERS[preferred(accept, among or tuple(ENCODERS))]


def preferred(accept: tuple[str, ...], offered: tuple[str, ...]) -> str:
    """Return the media type that the Accept headers prefer; the first one where they have none.

    Raises:
        NotAcceptable: the client accepts none of the media types.
    """
    # Several headers are one list, and empty members of a list do not count (RFC 9110, 5.2 and
    # 5.6.1). Media types have no case (8.3.1).
    ranges = [part.strip() for part in ",".join(accept).lower().split(",")]
    wanted = ",".join(filter(None, ranges))
    if wanted in ("", "*/*"):
        return offered[0]
    best = headers.preferred(wanted, offered)
    if not best:
        detail = f"Nothing acceptable to {shown(wanted)}; there is {', '.join(offered)}."
        raise NotAcceptable(detail, headers={"Vary": "Accept"})
    return best
