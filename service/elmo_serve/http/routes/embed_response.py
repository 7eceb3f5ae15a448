"""The response of POST /embed: the vectors of a request, encoded and sent."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, overload

from numpy.typing import NDArray
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elmo_serve.errors import DeadlineExceeded, FieldError, pointer
from elmo_serve.http.media_types import json_text
from elmo_serve.http.media_types.encoder import SMALL_BYTES, Chunk, Embeddings, Encoder
from elmo_serve.http.media_types.response import send_chunks
from elmo_serve.http.request.parsing import Parsed
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.http.text.splitting import text_warnings
from elmo_serve.output import Output
from elmo_serve.scheduling.engine import Embedded
from elmo_serve.scheduling.quotas import Hold
from elmo_serve.workers.shared_memory import Vectors

_FEW_SENTENCES: Final = 32
"""Sentences up to which likewise: each has a header of its own."""


class VectorsResponse(Response):
    """A response in pieces; its reserved bytes are released when the last one is sent.

    `extra` are further headers with numbers; those that are None are left out.
    """

    def __init__(
        self,
        encoding: Encoder,
        timing: str,
        pieces: list[Chunk],
        reservation: Hold,
        extra: Mapping[str, float | None],
    ) -> None:
        # Not Response's own constructor, which would join and copy a body.
        self.background = None
        self.raw_headers = [
            (b"content-type", encoding.media_type.encode()),
            (b"vary", b"Accept"),
            (b"server-timing", timing.encode()),
        ]
        self.raw_headers += [
            (name.encode(), str(value).encode())
            for name, value in extra.items()
            if value is not None
        ]
        self._pieces = pieces
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_chunks(send, self.raw_headers, self._pieces)
        finally:
            self._reservation.release()


def embeddings_of(
    model: ServedModel, parsed: Parsed, output: Output, embedded: Embedded
) -> Embeddings:
    """Return the vectors with everything that a response says of them."""
    info = model.info
    return Embeddings(
        model=model.name,
        revision=info.revision,
        dimension=output.width(info.dimension),
        layers=output.layers,
        tokens=sum(parsed.lengths),
        arrays=_Arrays(embedded.vectors),
        sentences=parsed.sentences,
        shape=output.shape(-1, info.dimension),
        dtype=output.dtype,
        offsets=parsed.offsets,
        tokenizer=parsed.text.tokenizer if parsed.text is not None else None,
        warnings=_named(parsed) if parsed.warnings.count else (),
        unknown_share=_unknown_share(output, parsed, embedded),
    )


def _unknown_share(output: Output, parsed: Parsed, embedded: Embedded) -> float | None:
    """Return the share of tokens without a word vector; None where none are appended."""
    if not output.appended:
        return None
    unknown = sum(vectors.unknown for vectors in embedded.vectors)
    return round(unknown / (sum(parsed.lengths) or 1), 6)


def _named(parsed: Parsed) -> Sequence[FieldError]:
    """Return the warnings that are listed, each with a pointer into the body of the request."""
    listed = parsed.warnings.listed
    if parsed.text is None:
        return [FieldError(pointer("sentences", w.sentence, w.token), w.detail) for w in listed]
    return text_warnings(parsed.warnings)


async def encode(
    answer: Embeddings, embedded: Embedded, encoding: Encoder, server: Server, deadline: float
) -> list[Chunk]:
    """Encode the response: JSON in other processes, large checksums in a thread, the rest here.

    Raises:
        DeadlineExceeded: it took longer than until `deadline`.
    """
    if encoding is not json_text.ENCODER and _is_small(embedded):
        return encoding.encode(answer)
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            if encoding is json_text.ENCODER:
                sentences = await server.json_workers.write(embedded.vectors)
                return [json_text.head(answer), *sentences, json_text.tail(answer)]
            return await asyncio.to_thread(encoding.encode, answer)
    except TimeoutError:
        server.metrics.failures.labels("deadline").inc()
        raise DeadlineExceeded("The vectors were there in time, but not yet written.") from None


def _is_small(embedded: Embedded) -> bool:
    if len(embedded.vectors) > _FEW_SENTENCES:
        return False
    numbers = sum(math.prod(vectors.shape) for vectors in embedded.vectors)
    return 4 * numbers <= SMALL_BYTES


def note(scope: Scope, answer: Embeddings, embedded: Embedded, encode_seconds: float) -> str:
    """Add the request's figures to the access log; return them as a Server-Timing header."""
    scope["state"]["account"].update(
        sentences=len(answer.sentences),
        tokens=answer.tokens,
        queue_seconds=round(embedded.queue_seconds, 4),
        infer_seconds=round(embedded.infer_seconds, 4),
        encode_seconds=round(encode_seconds, 4),
    )
    return (
        f"queue;dur={embedded.queue_seconds * 1e3:.1f}, "
        f"infer;dur={embedded.infer_seconds * 1e3:.1f}, encode;dur={encode_seconds * 1e3:.1f}"
    )


class _Arrays(Sequence[NDArray[Any]]):
    """The arrays of some vectors, each made when it is asked for."""

    def __init__(self, vectors: Sequence[Vectors]) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[NDArray[Any]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[Any] | list[NDArray[Any]]:
        if isinstance(index, slice):
            return [vectors.numpy() for vectors in self._vectors[index]]
        return self._vectors[index].numpy()
