"""/v2: health and metadata by the Open Inference Protocol, which KServe asks for.

Source: https://github.com/kserve/open-inference-protocol, `inference_rest.md`. The protocol's
`infer` is missing: it sends tensors, and ELMo reads tokens, so vectors come from `POST /embed`.
"""

from typing import Final

from fastapi import APIRouter

from elmo_serve.errors import Unavailable, UnknownModel, UnknownRoute
from elmo_serve.http.errors import bodies
from elmo_serve.http.errors.problem_details import ALWAYS
from elmo_serve.http.routes import health
from elmo_serve.http.schemas.server import (
    OpenInferenceLive,
    OpenInferenceModel,
    OpenInferenceModelReady,
    OpenInferenceReady,
    OpenInferenceServer,
)
from elmo_serve.http.state import VERSION, TheServer

router = APIRouter(tags=["Open Inference Protocol"])

_NAME: Final = "elmo-serve"

_PROBE: Final = bodies.documented((Unavailable,), bodies.OPEN_INFERENCE)
_MODEL: Final = bodies.documented((*ALWAYS, UnknownModel), bodies.OPEN_INFERENCE)


@router.get("/v2", operation_id="getServerMetadata", summary="Describe the server, as KServe")
async def server_metadata() -> OpenInferenceServer:
    """Return the name and the version of the program. The route needs no key."""
    return OpenInferenceServer(name=_NAME, version=VERSION, extensions=[])


@router.get(
    "/v2/health/live", operation_id="getServerLive", summary="Liveness, as KServe", responses=_PROBE
)
async def server_live(server: TheServer) -> OpenInferenceLive:
    """As `/health/live`: 200 while the process can recover by itself."""
    await health.live(server)
    return OpenInferenceLive(live=True)


@router.get(
    "/v2/health/ready",
    operation_id="getServerReady",
    summary="Readiness, as KServe",
    responses=_PROBE,
)
async def server_ready(server: TheServer) -> OpenInferenceReady:
    """As `/health/ready`: 200 while a model can answer, else 503 with the reason."""
    await health.ready(server)
    return OpenInferenceReady(ready=True)


@router.get(
    "/v2/models/{name:path}/ready",
    operation_id="getModelReady",
    summary="Readiness of a model",
    responses=_MODEL,
)
async def model_ready(name: str, server: TheServer) -> OpenInferenceModelReady:
    """Return 200 while this model can answer, else 503 with the reason."""
    model = server.models.get(name)
    if model.open_reason is not None:
        raise model.unavailable()
    return OpenInferenceModelReady(name=model.name, ready=True)


@router.post("/v2/models/{name:path}/infer", include_in_schema=False)
async def infer(name: str) -> None:
    """Answer 404 with the reason: a client of the protocol asks for it first."""
    raise UnknownRoute("There is no `infer`: it sends tensors. POST /embed takes tokens and text.")


@router.get(
    "/v2/models/{name:path}",
    operation_id="getModelMetadata",
    summary="Describe a model, as KServe",
    responses=_MODEL,
)
async def model_metadata(name: str, server: TheServer) -> OpenInferenceModel:
    """Return the revision of a model. `GET /info` says more."""
    if name.endswith("/config"):  # of Triton, and no part of the protocol
        raise UnknownRoute("There is no route for the configuration of a model; GET /info has it.")
    if name.endswith("/infer"):
        await infer(name)
    model = server.models.get(name)
    return OpenInferenceModel(
        name=model.name, versions=[model.info.revision], platform=_NAME, inputs=[], outputs=[]
    )
