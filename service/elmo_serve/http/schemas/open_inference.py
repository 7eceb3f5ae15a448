"""Bodies of /v2, the health and metadata routes of the Open Inference Protocol."""

from typing import Any

from pydantic import BaseModel, Field


class OpenInferenceServer(BaseModel):
    """The metadata of the server."""

    name: str
    version: str
    extensions: list[str] = Field(description="Empty: no extension of the protocol.")


class OpenInferenceLive(BaseModel):
    """The liveness of the server."""

    live: bool


class OpenInferenceReady(BaseModel):
    """The readiness of the server."""

    ready: bool


class OpenInferenceModelReady(BaseModel):
    """The readiness of a model."""

    name: str
    ready: bool


class OpenInferenceModel(BaseModel):
    """The metadata of a model."""

    name: str
    versions: list[str] = Field(description="The revision of the weights that is served.")
    platform: str
    inputs: list[dict[str, Any]] = Field(description="Empty: `POST /embed` takes the requests.")
    outputs: list[dict[str, Any]] = Field(description="Empty, as `inputs`.")


class OpenInferenceErrorResponse(BaseModel):
    """An error, as the protocol has it."""

    error: str
