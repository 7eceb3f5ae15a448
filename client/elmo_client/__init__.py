"""Python client of elmo-serve: tokenised sentences or text in, NumPy arrays out.

    from elmo_client import Client

    with Client("http://localhost:8000") as client:
        for vectors in client.stream(sentences, layers="average"):
            ...  # (n, 2P) for a sentence of n tokens, in the order given

It needs anyio, httpx, NumPy, orjson and safetensors, and neither torch nor elmo-serve.
"""

from elmo_client.async_client import AsyncClient
from elmo_client.client import Client
from elmo_client.elmo_embedder import ElmoEmbedder
from elmo_client.errors import (
    BadAnswer,
    CannotSend,
    ElmoError,
    FieldError,
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
from elmo_client.results import (
    EmbeddedText,
    Scores,
    Task,
    TokenizedText,
)
from elmo_client.selection import EmbedOptions

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "CannotSend",
    "Client",
    "ElmoEmbedder",
    "ElmoError",
    "EmbedOptions",
    "EmbeddedText",
    "FieldError",
    "InvalidRequest",
    "ModelChanged",
    "NotFound",
    "Problem",
    "Refused",
    "RequestRefused",
    "Scores",
    "ServerFailed",
    "Task",
    "TokenizedText",
    "TooLarge",
    "TryLater",
    "Unauthorized",
    "Unreachable",
]
