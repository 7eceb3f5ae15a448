"""POST /tasks/{name}/fit and /jobs: tasks learned from labelled examples."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from elmo_serve.errors import ClientOverShare, Conflict, Overloaded, UnknownJob
from elmo_serve.http import headers
from elmo_serve.http.calls.call import received
from elmo_serve.http.errors.problem_details import ALWAYS, BODY_ERRORS, documented
from elmo_serve.http.routes.parameters import Model, TheServer
from elmo_serve.http.routes.tasks import Name, check_name
from elmo_serve.http.schemas.tasks import JobList, JobResponse
from elmo_serve.http.served_models import ServedModel
from elmo_serve.http.state import Server
from elmo_serve.jobs.bodies import NDJSON
from elmo_serve.jobs.bulk_queue import bulk_queue
from elmo_serve.jobs.plan import FitLimits, FitSource
from elmo_serve.jobs.store import JOB_ID, Job

router = APIRouter(tags=["Jobs"])

Id = Annotated[
    str,
    Path(description="The job's id.", json_schema_extra={"pattern": f"^{JOB_ID.pattern}$"}),
]
_BODY = {
    "application/json": {"schema": {"$ref": "#/components/schemas/FitBody"}},
    NDJSON: {"schema": {"type": "string"}},
}
_SAFETENSORS = "application/vnd.safetensors"


@router.post(
    "/tasks/{name}/fit",
    operation_id="fitTask",
    summary="Learn a task from labelled examples",
    status_code=202,
    responses={
        202: {
            "model": JobResponse,
            "description": "The job is queued.",
            "headers": {
                "Location": {
                    "description": "The address of the job, relative to that of the request.",
                    "schema": {"type": "string"},
                }
            },
        },
        **documented((*BODY_ERRORS, Conflict, ClientOverShare, Overloaded)),
    },
    openapi_extra={"requestBody": {"required": True, "content": _BODY}},
)
async def fit_task(
    name: Name,
    request: Request,
    server: TheServer,
    response: Response,
    model: Model = None,
) -> JobResponse:
    """Queue a job that learns the weights of a task, and a linear head, and registers the task.

    The body is one JSON object; or NDJSON, whose first line holds the options and every other line
    an example. A task of this name is replaced when the job is done. One job runs at a time.
    """
    is_lines = headers.media_type(request.scope, NDJSON) == NDJSON
    check_name(name)
    served = server.models.get(model)
    client = headers.client(request.scope)
    server.jobs.check_name(name, served.tasks)
    with server.jobs.slots.taking(client) as slot:
        async with received(request) as body:
            plan = await server.fit_parser.parse(body, _source(server, served, is_lines))
        queue = bulk_queue(server.engine, served.name, server.settings, client)
        job = await server.jobs.submit(name, queue, served.tasks, plan, slot)
    response.headers["Location"] = f"../../jobs/{job.id}"
    return _answer(job)


@router.get("/jobs", operation_id="listJobs", summary="List the jobs", responses=documented(ALWAYS))
async def list_jobs(server: TheServer) -> JobList:
    """Return all jobs that wait, run or are kept, the newest first."""
    return JobList(jobs=[_answer(job) for job in await server.jobs.list()])


@router.get(
    "/jobs/{id}",
    operation_id="getJob",
    summary="Get a job",
    responses=documented((*ALWAYS, UnknownJob)),
)
async def get_job(id: Id, server: TheServer) -> JobResponse:  # noqa: A002 - the name in the path
    """Return the state of a job, its progress and its scores so far."""
    return _answer(await server.jobs.get(id))


@router.get(
    "/jobs/{id}/head",
    operation_id="getHead",
    summary="Get the head of a job",
    response_class=Response,
    responses={
        200: {
            "description": "The linear head: `weight` (labels, 2P; 8P for a pair) and `bias` "
            "(labels); the labels are in the metadata.",
            "content": {_SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}},
        },
        **documented((*ALWAYS, UnknownJob, Conflict)),
    },
)
async def get_head(id: Id, server: TheServer) -> Response:  # noqa: A002
    """Return the linear head that was trained with the mixture, as safetensors."""
    return Response(await server.jobs.head(id), media_type=_SAFETENSORS)


@router.delete(
    "/jobs/{id}",
    operation_id="cancelJob",
    summary="Cancel a job",
    responses=documented((*ALWAYS, UnknownJob, Conflict)),
)
async def cancel_job(id: Id, server: TheServer) -> JobResponse:  # noqa: A002
    """Cancel a job that waits or runs; the job is answered as it is then.

    A job that has ended stays as it is.
    """
    return _answer(await server.jobs.cancel(id))


def _source(server: Server, served: ServedModel, is_lines: bool) -> FitSource:
    settings, info = server.settings, served.info
    limits = FitLimits(
        settings.max_job_examples, settings.max_job_tokens, settings.max_sentence_tokens
    )
    return FitSource(is_lines, limits, info.tokenizer, info.language)


def _answer(job: Job) -> JobResponse:
    members: dict[str, Any] = asdict(job)
    return JobResponse(**{name: members[name] for name in JobResponse.model_fields})
