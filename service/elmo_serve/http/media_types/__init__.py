"""Media types of vectors: one file each, one table, and the choice by Accept."""

from __future__ import annotations

from collections.abc import Sequence

import mimeparse

from elmo_serve.errors import NotAcceptable, shown
from elmo_serve.http.media_types import arrow, json_text, npz, safetensors
from elmo_serve.http.media_types.encoder import Encoding

ENCODINGS: dict[str, Encoding] = {
    encoding.media_type: encoding
    for encoding in (json_text.ENCODING, npz.ENCODING, safetensors.ENCODING, arrow.ENCODING)
}


def choose(accept: Sequence[str]) -> Encoding:
    """Return the encoding that the Accept headers prefer; JSON when they leave the choice.

    Raises:
        NotAcceptable: none of them is acceptable.
    """
    # Several headers are one list, an empty member of a list is none (RFC 9110, 5.2 and 5.6.1),
    # and media types have no case (8.3.1).
    ranges = [part.strip() for part in ",".join(accept).lower().split(",")]
    wanted = ",".join(filter(None, ranges))
    if wanted in ("", "*/*"):
        return json_text.ENCODING
    # mimeparse takes the last of equals, and JSON should win a tie.
    try:
        best = mimeparse.best_match(list(reversed(ENCODINGS)), wanted)
    except mimeparse.MimeTypeParseException:
        best = ""
    if not best:
        raise NotAcceptable(
            f"Nothing acceptable to {shown(wanted)}; there is {', '.join(ENCODINGS)}.",
            headers={"Vary": "Accept"},
        )
    return ENCODINGS[best]
