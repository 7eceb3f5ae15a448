"""`elmo embed` on the golden model, run in this process or as a child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from elmo_serve.cli import main
from tests.support.servers import SMALL

COMMAND = Path(sys.executable).with_name("elmo")
TEXT = ["The cat sat .", "naïve  東京\tx/y", "The cat sat .", "and / or", "a"]


def embed(*arguments: object, model: Path = SMALL) -> Result:
    """Run `elmo embed` in this process, without the ELMO_* variables of the environment."""
    clean = {name: None for name in os.environ if name.startswith("ELMO_")}
    return CliRunner().invoke(
        main, ["embed", *map(str, arguments)], env={**clean, "ELMO_MODEL": str(model)}
    )


def done(*arguments: object) -> str:
    """Run `elmo embed`, which succeeds; return its output."""
    result = embed(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object, code: int = 1) -> str:
    """Run `elmo embed`, which ends with `code`; return its line on stderr.

    On a busy machine there are lines of progress as well.
    """
    result = embed(*arguments)
    assert result.exit_code == code, result.output
    (line,) = (each for each in result.stderr.splitlines() if each.startswith("elmo: "))
    return line


def begin(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start `elmo embed`, which hears SIGINT even where the tests run in the background."""
    options.setdefault("preexec_fn", lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ELMO_")}
    environment |= {"ELMO_MODEL": str(SMALL), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [COMMAND, "embed", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )
