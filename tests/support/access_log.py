"""The access log of a server that logs JSON."""

import json
from typing import Any

from tests.support.servers import Running


def logged(server: Running, request_id: str) -> list[dict[str, Any]]:
    """Return the records of one request. They are written after its response: wait for them."""

    def found() -> list[dict[str, Any]]:
        # The last line may be half written.
        lines = [line for line in server.log.splitlines(keepends=True) if line.endswith("}\n")]
        records = [json.loads(line) for line in lines if line.startswith("{")]
        return [record for record in records if record.get("request_id") == request_id]

    server.until(lambda: bool(found()))
    return found()
