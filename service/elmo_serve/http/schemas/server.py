"""Schemas of the model, its limits, its health and the addresses of the server."""

from typing import Literal

from pydantic import BaseModel, Field

from elmo_serve.http.schemas.embed import Int64, Vector
from elmo_serve.http.schemas.neighbours import IndexedText


class LimitsResponse(BaseModel):
    """Every limit in force."""

    max_batch_tokens: int
    max_queue_tokens: int
    max_request_sentences: int
    max_sentence_tokens: int
    max_body_bytes: Int64
    max_answer_bytes: Int64
    max_connections: int
    request_timeout_seconds: float
    client_timeout_seconds: float
    drain_timeout_seconds: float


class ModelStatus(BaseModel):
    """The state of one model of the server."""

    model: str
    state: Literal["loading", "ready", "down", "failed"] = Field(
        description="`failed`: it could not be loaded when the server started, and is tried "
        "again every five minutes. `down`: it has lost its workers, which are being replaced."
    )
    reason: str = Field(description="Why it cannot answer; empty when it can.")


class UsesExample(BaseModel):
    """A word whose uses differ."""

    word: str
    sentences: list[str] = Field(description="Four sentences, their tokens with spaces between.")


class ServedIndex(IndexedText):
    """The text of an index of the user."""

    examples: list[UsesExample] | None = Field(
        description="Up to four words, for a page; null where the text is too small."
    )


class Training(BaseModel):
    """The training of a model."""

    tokens: Int64 = Field(description="Tokens that each direction read, repeated ones included.")
    perplexity: float | None = Field(description="That of held-out text; null if not measured.")


class InfoResponse(BaseModel):
    """The model and the server."""

    model: str
    models: list[ModelStatus] = Field(
        description="Every model of the server; the first one is the default."
    )
    revision: str = Field(description="Short SHA-256 of the weights.")
    format: str
    layers: int = Field(description="L + 1: the token layer and the biLSTM layers.")
    dimension: int = Field(description="Width of a vector: 2P.")
    parameters: Int64
    precision: str = Field(description="The one that was asked for.")
    kernel: dict[str, str] = Field(
        description="The products that compute it on each device, chosen at the start."
    )
    tokenizer: str = Field(description="The tokenizer of the training text: the default for text.")
    language: str = Field(description="Code of the language, by which `moses` splits.")
    devices: list[str] = Field(description="One entry a worker.")
    softmax: bool = Field(
        description="Whether it predicts words: `POST /score` and `POST /substitutes`."
    )
    trained: Training | None = Field(
        description="Its training as the checkpoint states it; null where it does not."
    )
    index: ServedIndex | None = Field(
        description="The text of `ELMO_INDEX` for this model, see `GET /uses`; null without one."
    )
    limits: LimitsResponse
    media_types: list[str] = Field(description="The media types of `POST /embed` responses.")
    version: str


class CentreResponse(BaseModel):
    """The centre of a model: the mean of each layer over a text."""

    model: str
    revision: str
    text: str = Field(description="The name of the text.")
    tokens: int = Field(description="Its tokens.")
    layers: list[Vector] = Field(description="A mean of 2P numbers a layer, token layer first.")


class Health(BaseModel):
    """The state of the server."""

    status: Literal["live", "ready"]
    models: list[ModelStatus] = Field(
        default=[],
        description="The models that cannot answer, where another one can; else left out.",
    )
