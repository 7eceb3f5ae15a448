"""The dashboard's panels as one picture, after a run of `elmo bench` that changes its load.

    python -m benchmarks.dashboard PICTURE.png [--model NAME] [--seconds 20]

A real Prometheus (Debian's) scrapes a server each second; Grafana is not needed. Each panel draws
what its queries return. The loads, and the worker that is killed in the last one, are printed: the
picture should tell the same without them. Vertical lines are the beginnings of loads.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.machine import describe
from tests.support.processes import children
from tests.support.prometheus import BOARD, Prometheus, scraped
from tests.support.servers import Running, running

_LOADS = (
    ("one client, one sentence a request", ("--clients", "1", "--sentences", "1")),
    ("8 clients", ("--clients", "8")),
    ("64 clients, answers in JSON", ("--clients", "64", "--format", "json")),
    ("300 requests a second, whatever the answers", ("--rate", "300", "--timeout", "5")),
    ("8 clients, and a worker is killed half-way", ("--clients", "8")),
)
_PAUSE_SECONDS = 12.0  # without load, longer than the time over which the panels average
_COLUMNS = 5


def run_loads(server: Running, seconds: float) -> list[tuple[float, str]]:
    """Run `elmo bench` with each load; return when each began."""
    began = []
    for name, options in _LOADS:
        time.sleep(_PAUSE_SECONDS)
        began.append((time.time(), name))
        killing = threading.Timer(seconds / 2, _kill_worker, [server])
        if "killed" in name:
            killing.start()
        command = [str(Path(sys.executable).with_name("elmo")), "bench", server.url, *options]
        given = ["--duration", str(seconds), "--warm-up", "0"]
        done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
        print(f"{name}\n\n{done.stdout or done.stderr}", flush=True)
    time.sleep(_PAUSE_SECONDS)
    return began


def _kill_worker(server: Running) -> None:
    os.kill(children(server.pid)["worker"][0], signal.SIGKILL)


def draw(prometheus: Prometheus, began: list[tuple[float, str]], picture: Path) -> None:
    """Draw all panels from the start of the first load until now."""
    panels = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
    start, end = began[0][0] - _PAUSE_SECONDS, time.time()
    rows = -(-len(panels) // _COLUMNS)
    figure = Figure(figsize=(4 * _COLUMNS, 2.6 * rows), layout="constrained")
    all_axes = figure.subplots(rows, _COLUMNS).flat
    for unused in all_axes[len(panels) :]:
        unused.set_axis_off()
    for panel, axes in zip(panels, all_axes, strict=False):
        unit = panel["fieldConfig"]["defaults"].get("unit", "")
        axes.set_title(f"{panel['title']} ({unit})" if unit else panel["title"], fontsize=9)
        for target in panel["targets"]:
            for line in prometheus.course(target["expr"], start, end):
                points = [(float(at) - start, float(value)) for at, value in line["values"]]
                label = _legend(target, line) if any(value for _, value in points) else None
                axes.plot(*zip(*points, strict=True), label=label, linewidth=1)
        for at, _ in began:
            axes.axvline(at - start, color="0.8", linewidth=0.8, zorder=0)
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, end - start)
        axes.tick_params(labelsize=7)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=6, loc="upper left")
    figure.savefig(picture, dpi=90)


def _legend(target: dict[str, Any], line: dict[str, Any]) -> str:
    """Fill the labels of a line into the text of its legend."""
    text = target.get("legendFormat", "")
    return re.sub(r"{{(\w+)}}", lambda found: line["metric"].get(found[1], ""), text)


def main() -> int:
    """Run the loads, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--model", help="of the server; default: the one of elmo serve")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    options = parser.parse_args()
    if shutil.which("prometheus") is None:
        print("prometheus is not installed (Debian's package prometheus)", file=sys.stderr)
        return 2
    print(describe(), end="\n\n")
    given = {"model": options.model} if options.model else {}
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name), **given) as server,
        scraped(Path(name), server) as prometheus,
    ):
        draw(prometheus, run_loads(server, options.seconds), options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
