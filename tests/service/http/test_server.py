"""How the server is run: as many files can be open as its connections need."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.servers import SMALL, running


@pytest.mark.parametrize(
    ("connections", "allowed", "warns"), [(10, 276, False), (300, 856, False), (4_000, 1_500, True)]
)
def test_the_limit_of_open_files_is_raised_as_far_as_it_may(
    tmp_path: Path, connections: int, allowed: int, warns: bool
) -> None:
    elmo = Path(sys.executable).with_name("elmo")
    command = ("sh", "-c", f'ulimit -S -n 64; ulimit -H -n 1500; exec "{elmo}" serve')
    with running(tmp_path, command=command, model=SMALL, max_connections=connections) as server:
        limits = Path(f"/proc/{server.pid}/limits").read_text(encoding="utf-8")
        log = server.log_file.read_text(encoding="utf-8")

    found = re.search(r"Max open files +(\d+) +(\d+)", limits)
    assert found and found.groups() == (str(allowed), "1500")
    assert ("few files can be open" in log) is warns
