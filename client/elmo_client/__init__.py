"""A client in Python: sentences in, NumPy arrays out, whatever the server's limits are.

    from elmo_client import Client

    with Client("http://127.0.0.1:8000") as client:
        for vectors in client.stream(sentences, layers="average"):
            ...                                               # (n, 2P), in the order given

Needs httpx, NumPy, orjson and safetensors; neither torch nor the service's framework.
"""

from __future__ import annotations

from elmo_client.async_client import AsyncClient
from elmo_client.client import Client
from elmo_client.errors import (
    BadAnswer,
    CannotSend,
    ElmoError,
    InvalidRequest,
    ModelChanged,
    NotFound,
    Problem,
    Refused,
    RequestRefused,
    ServerFailed,
    TooLarge,
    TryLater,
    Unauthorized,
    Unreachable,
)
from elmo_model.task import Task
from elmo_serve.elmo_embedder import ElmoEmbedder

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "CannotSend",
    "Client",
    "ElmoEmbedder",
    "ElmoError",
    "InvalidRequest",
    "ModelChanged",
    "NotFound",
    "Problem",
    "Refused",
    "RequestRefused",
    "ServerFailed",
    "Task",
    "TooLarge",
    "TryLater",
    "Unauthorized",
    "Unreachable",
]
