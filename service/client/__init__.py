"""A client in Python: sentences in, NumPy arrays out, whatever the server's limits are.

    from service.client import Client

    with Client("http://127.0.0.1:8000") as client:
        for vectors in client.stream(sentences, layers="average"):
            ...                                               # (n, 2P), in the order given

Needs httpx, NumPy, orjson and safetensors; neither torch nor the service's framework.
"""

from __future__ import annotations

from model.task import Task
from service.client.elmo_embedder import ElmoEmbedder
from service.client.errors import (
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
from service.client.with_coroutines import AsyncClient
from service.client.with_threads import Client

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
