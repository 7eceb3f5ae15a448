"""A client of a server for the commands: its errors are meant for a user.

The HTTP client is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elmo_model.errors import ElmoError, OptionError

if TYPE_CHECKING:
    from elmo_client import Client


class ServerError(ElmoError):
    """A server does not respond, or refuses."""


@contextmanager
def connected(
    url: str, api_key: str | None, model: str | None, *, patience_seconds: float = 60.0
) -> Iterator[Client]:
    """Yield a client of a server.

    `patience_seconds` is the time for which a request is repeated while the server is busy or
    restarts. Raises OptionError for a URL or a key that cannot be one, and ServerError in place of
    the client's other errors.
    """
    import elmo_client

    try:
        opened = elmo_client.Client(
            url, api_key=api_key, model=model, patience_seconds=patience_seconds
        )
    except elmo_client.CannotSend as error:
        raise OptionError(str(error).replace("`model`", "--model")) from error
    try:
        with opened as client:
            yield client
    except elmo_client.Unauthorized as error:
        found = "the key is none of the server's; " if api_key else ""
        wanted = "give a key of the server by --api-key or ELMO_API_KEY"
        raise ServerError(f"{url}: 401 Unauthorized: {found}{wanted}") from error
    except elmo_client.ElmoError as error:
        raise ServerError(str(error)) from error
