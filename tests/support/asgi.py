"""One ASGI request without a server: its scope, its body in pieces, and the response."""

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def http_scope(path: str = "/embed", method: str = "POST", **headers: str) -> Scope:
    """Return the scope of a request; underscores in the names of headers stand for hyphens.

    A POST is one of JSON, unless `content_type` says otherwise.
    """
    if method == "POST":
        headers = {"content_type": "application/json", **headers}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "headers": [
            (name.replace("_", "-").lower().encode(), value.encode("latin-1"))
            for name, value in headers.items()
        ],
        "client": ("192.0.2.7", 1234),
        "state": {"request_id": "id-1", "log_fields": {}},
    }


def pieces(*contents: bytes, is_whole: bool = True) -> Receive:
    """Return a `receive` that gives a body in these pieces, and then a disconnect."""
    ahead: list[Message] = [
        {"type": "http.request", "body": content, "more_body": True} for content in contents
    ]
    if is_whole:
        ahead = ahead or [{"type": "http.request", "body": b""}]
        ahead[-1]["more_body"] = False

    async def receive() -> Message:
        return ahead.pop(0) if ahead else {"type": "http.disconnect"}

    return receive


class Route:
    """An application that reads the body and responds 200; it keeps the scopes that reached it."""

    def __init__(self, *, reads: bool = True) -> None:
        self.scopes: list[Scope] = []
        self.body = b""
        self._reads = reads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        more = self._reads and scope["type"] == "http"
        while more:
            message = await receive()
            self.body += message.get("body", b"")
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def respond(app: ASGIApp, scope: Scope, receive: Receive | None = None) -> dict[str, Any]:
    """Run an application for one request; return the start of its response."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive or pieces(), send)
    return dict(sent[0]) if sent else {}
