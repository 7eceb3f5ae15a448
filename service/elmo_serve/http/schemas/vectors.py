"""Types of fields that several schemas share."""

from typing import Annotated

from pydantic import Field

Vector = list[float]
# Generated clients read an integer without a format into 32 bits.
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]
