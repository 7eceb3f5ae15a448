"""Exceptions become responses: every request gets one."""

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_serve.http.calls.wait import DisconnectError
from elmo_serve.http.errors import bodies as error_bodies
from elmo_serve.http.errors.problem_details import translated


class Errors:
    """ASGI middleware: exceptions of the application and of inner middleware become responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except DisconnectError:
            return  # there is nobody to send a response to
        except Exception as error:  # broad: every request gets a response
            known = translated(error, Request(scope))
            if has_started:
                raise
            request_id, trace_id = scope["state"]["request_id"], scope["state"].get("trace_id")
            response = error_bodies.response(
                known, scope["method"], scope["path"], request_id, trace_id
            )
            await response(scope, receive, send)
