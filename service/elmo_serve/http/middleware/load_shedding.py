"""Answers 503 from the headers alone while the queue is full."""

from starlette.types import ASGIApp, Receive, Scope, Send

from elmo_serve.http.load_shedding import LoadShedder


class LoadShedding:
    """Raises the error of `LoadShedder` before the body of a `POST /embed` is read."""

    def __init__(self, app: ASGIApp, shedder: LoadShedder) -> None:
        self._app = app
        self._shedder = shedder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_embed = (
            scope["type"] == "http" and scope["path"] == "/embed" and scope["method"] == "POST"
        )
        error = self._shedder.refusal(scope) if is_embed else None
        if error is not None:
            scope["state"]["is_shed"] = True
            raise error
        await self._app(scope, receive, send)
