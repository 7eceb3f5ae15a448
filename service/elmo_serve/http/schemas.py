"""Bodies of requests and responses, as pydantic models and as the OpenAPI document shows them.

The schemas of requests state defaults in their descriptions alone: openapi-typescript makes a field
with `default` required, and openapi-generator's Go client does not compile with a `default` beside
`anyOf`. For the same reason there is no `oneOf` and no `not`.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, Strict

from elmo_serve.http.text_schemas import (
    OFFSETS_TEXT,
    TOKENIZER_TEXT,
    TOKENS_TEXT,
    WARNINGS_TEXT,
    Offset,
    Texts,
    Tokenizer,
    TokenWarning,
)
from elmo_serve.output import Dtype, LayerName, Pooling
from elmo_serve.task_schema import (
    MOST_LAYERS,
    TASK_EXAMPLE,
    Mix,
    ModelName,
    TaskName,
    a_whole_number,
    optional,
    without_default,
)

LayerNumber = Annotated[int, Field(ge=0), BeforeValidator(a_whole_number)]
LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1, max_length=MOST_LAYERS)]
# FailFast stops at the first fault: a body with a million faults is refused as fast as with one.
Sentence = Annotated[list[str], FailFast()]
Sentences = Annotated[list[Sentence], FailFast()]

_EMBED_EXAMPLE: Final[dict[str, Any]] = {
    "sentences": [["The", "bank", "of", "the", "river", "."]],
    "layers": "top",
    "pooling": "mean",
}
_TEXT_EXAMPLE: Final[dict[str, Any]] = {
    "text": ["The bank can't lend."],
    "tokenizer": "ptb",
    "layers": "average",
    "normalize": True,
}
_AT_MOST_ONE: Final[dict[str, Any]] = {
    "task": {"properties": {"layers": False, "mix": False}},
    "mix": {"properties": {"layers": False, "task": False}},
}


_TEXT_OR_SENTENCES: Final[dict[str, Any]] = {
    "if": {"required": ["text"]},
    "then": {"properties": {"sentences": False}},
    "else": {"required": ["sentences"], "properties": {"tokenizer": False}},
}


class EmbedRequest(BaseModel):
    """Tokenised `sentences`, or `text`, and the vectors to return.

    At most one of `layers`, `task` and `mix`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "dependentSchemas": _AT_MOST_ONE,
            **_TEXT_OR_SENTENCES,
            "examples": [_EMBED_EXAMPLE, _TEXT_EXAMPLE],
        },
    )

    # Which of the two was sent is read from `model_fields_set`.
    sentences: Sentences = optional(
        (),
        "One list of tokens a sentence. An empty sentence and an empty token are legal and keep "
        "their place. Either `sentences` or `text` is required.",
    )
    text: Texts = optional((), "One string a sentence, which `tokenizer` splits into tokens.")
    tokenizer: Tokenizer = optional(None, TOKENIZER_TEXT)
    model: ModelName = optional(None, "A model of the server. Default: the first one.")
    layers: LayerName | LayerNumbers = optional(
        "all",
        "Layers of the biLM: 0 is the token layer, 1 to L are the biLSTM layers. `average` and "
        "`sum` are their plain mean and sum, `concat` joins all layers of a token to one vector. "
        "Default: `all`.",
    )
    # Whether `task` and `mix` were sent is read from `model_fields_set`.
    task: TaskName = optional(None, "A registered task, whose mix is used.")
    mix: Mix = optional(None, "A scalar mix of the layers.")
    pooling: Pooling = optional(
        "none", "Over the tokens of a sentence; an empty sentence pools to zeros. Default: `none`."
    )
    dtype: Dtype = optional("float32", "Number format of the vectors. Default: `float32`.")
    normalize: Annotated[bool, Strict()] = optional(
        False,
        "Scale every vector to length 1, after pooling; zeros stay zeros. Default: false.",
    )
    word_vectors: Literal["append"] = optional(
        None,
        "`append` puts the static word vector of each token behind its ELMo vector, before pooling "
        "and `normalize`. For selections of one vector of 2P numbers a token. Default: none.",
    )


class Usage(BaseModel):
    """The size of the request."""

    sentences: int
    tokens: int


Vector = list[float]
# Generated clients read an integer without a format into 32 bits.
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]


class EmbedResponse(BaseModel):
    """ELMo vectors, in the order of the sentences, never padded."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "english",
                    "dimension": 4,
                    "layers": [2],
                    "embeddings": [[0.25, -0.5, 0.125, 1.0]],
                    "usage": {"sentences": 1, "tokens": 6},
                }
            ]
        }
    )

    model: str = Field(description="The name of the model that computed the vectors.")
    dimension: int = Field(
        description="Width of a vector: 2P, forward half first; (L + 1) 2P for `concat`. The width "
        "of the word vectors is added where they are appended."
    )
    layers: list[int] | None = Field(description="The layers that were asked for; null for a mix.")
    embeddings: list[Vector | list[Vector] | list[list[Vector]]] = Field(
        description="A sentence of n tokens: (layers, n, 2P) for `all` or a list of layers, "
        "(n, 2P) for `top`, `average`, `sum`, `task` and `mix`, (n, (L + 1) 2P) for `concat`; "
        "pooling removes the n."
    )
    usage: Usage
    tokenizer: str = optional("", "The tokenizer, for a request with `text`.")
    tokens: list[list[str]] = optional((), f"{TOKENS_TEXT} For a request with `text`.")
    offsets: list[list[Offset]] = optional((), f"{OFFSETS_TEXT} For a request with `text`.")
    warnings: list[TokenWarning] = optional((), WARNINGS_TEXT)
    unknown_share: float = Field(
        default=0.0,
        description="Share of the tokens, from 0 to 1, that have no word vector. Only in responses "
        "to requests with `word_vectors`.",
        json_schema_extra=without_default,
    )


_SCORES: Final = {"mean": 0.91, "spread": 0.004, "weights": [0.2, 0.5, 0.3], "accuracy": 0.91}
_JOB_EXAMPLE: Final[dict[str, Any]] = {
    "id": "0f9c2a7e51d84c0b",
    "name": "ner",
    "model": "english",
    "kind": "token",
    "state": "running",
    "progress": 0.6,
    "examples": 5000,
    "tokens": 5000,
    "scores": {"mixtures": {"learned": _SCORES}},
    "task": None,
    "reason": None,
    "created_at": 1760000000.0,
    "ended_at": None,
}


class TaskResponse(BaseModel):
    """A registered task."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "ner", **TASK_EXAMPLE, "model": "english", "revision": "3f1c9a20b7de"}
            ]
        }
    )

    name: str
    weights: list[float]
    gamma: float
    layer_norm: bool
    description: str
    model: str = Field(description="The model that the task is for.")
    revision: str = Field(description="The revision of its weights.")


class TaskList(BaseModel):
    """All registered tasks, by name."""

    tasks: list[TaskResponse]


class JobResponse(BaseModel):
    """A fit of a task: where it is, and what it has found."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB_EXAMPLE]})

    id: str
    name: str = Field(description="The task that is fitted.")
    model: str
    kind: Literal["token", "sentence", "pair"]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float = Field(description="From 0 to 1.")
    examples: int = Field(description="Labels, those of the test part included.")
    tokens: int
    scores: dict[str, Any] = Field(
        description="`mixtures` has one entry for each mixture that is fitted so far: the learned "
        "one, the average, the sum, every layer and the top one. `mean` and `spread` are over the "
        "seeds, `weights` are normalised. `scored_on` is `test` or `validation`; `measure` names "
        "the score that `mean` is of."
    )
    task: TaskResponse | None = Field(description="The task, when the job is done.")
    reason: str | None = Field(description="Why the job failed.")
    created_at: float = Field(description="Seconds since 1970.")
    ended_at: float | None = Field(description="Seconds since 1970, when the job has ended.")


class JobList(BaseModel):
    """The jobs that are kept, the newest first."""

    jobs: list[JobResponse]


class LimitsResponse(BaseModel):
    """Every limit in force."""

    max_batch_tokens: int
    max_queue_tokens: int
    max_client_tokens: int | None
    max_request_sentences: int
    max_sentence_tokens: int
    max_body_bytes: Int64
    max_receiving_bytes: Int64
    max_answer_bytes: Int64
    max_connections: int
    max_jobs: int
    max_client_jobs: int
    max_job_examples: int
    max_job_tokens: int
    max_job_bytes: Int64
    request_timeout_seconds: float
    client_timeout_seconds: float
    drain_timeout_seconds: float


class ModelStatus(BaseModel):
    """The state of one model of the server."""

    model: str
    state: Literal["loading", "ready", "down", "failed"] = Field(
        description="`failed`: it could not be loaded when the server started, and is not tried "
        "again before the next start. `down`: it has lost its workers, which are being replaced."
    )
    reason: str = Field(description="Why it cannot answer; empty when it can.")


class WordVectorsResponse(BaseModel):
    """Static word vectors."""

    file: str = Field(description="Name of the file.")
    format: str
    revision: str = Field(description="Short SHA-256 of words and vectors.")
    words: Int64
    dimension: int = Field(description="Width of a vector.")


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
    precision: str
    tokenizer: str = Field(description="The tokenizer of the training text: the default for text.")
    language: str = Field(description="Code of the language, by which `moses` splits.")
    devices: list[str] = Field(description="One entry a worker.")
    word_vectors: WordVectorsResponse | None = Field(
        description="The word vectors that requests can append; null where there are none."
    )
    limits: LimitsResponse
    media_types: list[str] = Field(description="The media types of `POST /embed` responses.")
    version: str


class CentreResponse(BaseModel):
    """The centre of a model: the mean of each layer over a text."""

    model: str
    revision: str
    text: str = Field(description="The name of the text, which comes with the program.")
    tokens: int = Field(description="Its tokens.")
    layers: list[Vector] = Field(description="A mean of 2P numbers a layer, token layer first.")


class Health(BaseModel):
    """The state of the server."""

    status: Literal["live", "ready"]
    models: list[ModelStatus] = Field(
        default=[],
        description="The models that cannot answer, where another one can; else left out.",
        json_schema_extra=without_default,
    )


class RootResponse(BaseModel):
    """Addresses to begin with, relative to this one."""

    name: str
    version: str
    docs: str = Field(description="The page that shows this document.")
    openapi: str
    info: str
    health: str
    metrics: str


class FieldProblem(BaseModel):
    """One fault of a request body."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body.")
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:elmo-serve:error:unknown-task",
                    "title": "Unknown task",
                    "status": 404,
                    "detail": "Unknown task 'sentimnt'; registered: 'ner', 'sentiment'",
                    "instance": "0f9c2a7e51d84c0b",
                }
            ]
        }
    )

    type: str = Field(description="The error's name: a URI that is the same in every version.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The request id.")
    errors: list[FieldProblem] = optional((), "The faults of the request body, where it has any.")
