"""GET /uses: the uses of a word in an indexed text."""

import asyncio
import csv
import io
from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from elmo_model.uses.index import UsesIndex
from elmo_serve.errors import NoIndex
from elmo_serve.http import headers
from elmo_serve.http.deadline import Deadline
from elmo_serve.http.routes.common import TheServer
from elmo_serve.http.schemas.neighbours import IndexedText
from elmo_serve.http.schemas.uses import UseInContext, UsesQuery, UsesResponse

router = APIRouter(tags=["Vectors"])

_JSON: Final = "application/json"
_CSV: Final = "text/csv"

_COLUMNS: Final = ("line", "sentence", "token", "before", "word", "after")


@router.get(
    "/uses",
    operation_id="listUses",
    summary="List the uses of a word",
    response_class=Response,
    responses={
        200: {
            "model": UsesResponse,
            "content": {_CSV: {"schema": {"type": "string"}}},
            "description": "The uses, as JSON or as CSV.",
        }
    },
)
async def uses(
    request: Request, server: TheServer, query: Annotated[UsesQuery, Query()]
) -> Response:
    """Return the uses of an exact form in the text of `ELMO_INDEX`, in the order of the text.

    Nothing is computed by a model. `Accept: text/csv` gives a row for each use: line, sentence,
    token, before, word, after.
    """
    media_type = headers.accepted(request.scope, (_JSON, _CSV))
    model = server.models.get(query.model)
    revision, index = model.info.revision, model.uses.own
    if index is None:
        raise NoIndex(f"No index of {model.name!r} is served; ELMO_INDEX names a folder with one.")
    most = server.settings.request_timeout_seconds
    seconds = headers.timeout_seconds(request.scope, most)
    async with Deadline(server.deadlines, seconds) as deadline:
        deadline.overdue = "The index was not read within {:g} s."
        work = server.searching.submit(_response, index, query, model.name, revision)
        found = await asyncio.wrap_future(work)
    body = _csv(found) if media_type == _CSV else found.model_dump_json()
    return Response(body, media_type=media_type, headers={"Vary": "Accept"})


def _response(index: UsesIndex, query: UsesQuery, model: str, revision: str) -> UsesResponse:
    count, found = index.uses_of(query.word, query.offset, query.limit)
    return UsesResponse(
        word=query.word,
        count=count,
        uses=[UseInContext.of(use) for use in found],
        index=IndexedText.of(index),
        model=model,
        revision=revision,
    )


def _csv(found: UsesResponse) -> str:
    """Return a table with a row for each use."""
    rows: Iterable[tuple[object, ...]] = (
        (use.line, " ".join(use.sentence), use.token, use.before, found.word, use.after)
        for use in found.uses
    )
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_COLUMNS, *rows])
    return text.getvalue()
