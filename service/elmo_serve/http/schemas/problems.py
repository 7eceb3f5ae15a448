"""The schema of an error: a problem document (RFC 9457)."""

from pydantic import BaseModel, ConfigDict, Field

from elmo_serve.task_schema import optional


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
