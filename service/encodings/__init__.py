"""Media types of vectors: one file each, one table, and the choice by Accept."""

from __future__ import annotations

import mimeparse

from service.encodings import json_text, npz, safetensors
from service.encodings.answer import Encoding
from service.errors import NotAcceptable, shown

ENCODINGS: dict[str, Encoding] = {
    encoding.media_type: encoding
    for encoding in (json_text.ENCODING, npz.ENCODING, safetensors.ENCODING)
}


def choose(accept: str | None) -> Encoding:
    """Return the encoding that an Accept header prefers; JSON when it leaves the choice.

    Raises:
        NotAcceptable: none of them is acceptable.
    """
    if accept is None or accept in ("", "*/*"):
        return json_text.ENCODING
    # mimeparse takes the last of equals, and JSON should win a tie.
    try:
        best = mimeparse.best_match(list(reversed(ENCODINGS)), accept)
    except mimeparse.MimeTypeParseException:
        best = ""
    if not best:
        raise NotAcceptable(
            f"Nothing acceptable to {shown(accept)}; there is {', '.join(ENCODINGS)}."
        )
    return ENCODINGS[best]
