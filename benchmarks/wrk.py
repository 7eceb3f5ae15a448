"""Load by wrk, which takes little of the processor time that the server beside it needs."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "{accept}"
local bodies, count = {{}}, 0
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
function request()
  count = count + 1
  return wrk.format(nil, "/embed", nil, bodies[count % #bodies + 1])
end
function done(summary, latency, requests)
  io.write(string.format("p50 %d p99 %d errors %d\\n", latency:percentile(50),
    latency:percentile(99), summary.errors.status + summary.errors.timeout + summary.errors.read))
end
"""
_PAUSE = "function delay() return -math.log(1 - math.random()) * {milliseconds} end\n"


@dataclass(frozen=True, slots=True)
class Load:
    """The result of some seconds of load: latencies in milliseconds."""

    requests: int
    rate: float
    p50: float
    p99: float
    errors: int


def is_missing() -> bool:
    """Say on standard error that wrk is not installed."""
    if shutil.which("wrk") is not None:
        return False
    print("wrk is not installed (Debian's package wrk)", file=sys.stderr)
    return True


def load(
    url: str,
    bodies: Sequence[bytes],
    accept: str,
    clients: int,
    seconds: int,
    *,
    pause: float = 0.0,
) -> Load:
    """Post the bodies in turn to /embed, each client on a connection of its own.

    A client pauses before each request for `pause` seconds in the mean, exponentially distributed.
    """
    with tempfile.TemporaryDirectory() as folder:
        lines, script = Path(folder, "bodies"), Path(folder, "request.lua")
        lines.write_bytes(b"\n".join(bodies))
        text = _SCRIPT.format(accept=accept, bodies=lines)
        script.write_text(text + (_PAUSE.format(milliseconds=1e3 * pause) if pause else ""))
        command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s"]
        done = subprocess.run(
            [*command, "-s", str(script), url], capture_output=True, text=True, check=True
        )
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    count = re.search(r"(\d+) requests in", done.stdout)
    line = re.search(r"p50 (\d+) p99 (\d+) errors (\d+)", done.stdout)
    assert rate and count and line, done.stdout
    p50, p99, errors = map(int, line.groups())
    return Load(int(count[1]), float(rate[1]), p50 / 1e3, p99 / 1e3, errors)
