"""`elmo fit --server`: the layers come from a server, and the task goes there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import elmo
from tests.support.servers import SMALL, running


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    rows = [f"{label}\t{label} {number}" for number in range(20) for label in ("yes", "no")]
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(["label\tsentence", *rows, "no\t", ""]))
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    return ["--kind", "sentence", "--train", train, "--test", test, "--seeds", 1]


def learned(folder: Path) -> tuple[dict[str, Any], list[float]]:
    """Return the task of a folder without the names that its model has, and its numbers."""
    task: dict[str, Any] = json.loads((folder / "yes.json").read_text())
    for members in (task, task["fit"]):
        del members["model"]
    return task, [*task.pop("weights"), task.pop("gamma"), task["fit"].pop("score")]


def test_a_fit_on_a_server_is_that_of_this_process(tmp_path: Path, files: list[object]) -> None:
    here, kept, tasks = (tmp_path / name for name in ("here", "kept", "tasks"))
    with running(tmp_path / "server", model=SMALL, tasks=tasks, api_keys="sesame") as server:
        url = ("--server", server.url)
        result = elmo("fit", "yes", *files, *url, "--out", kept, ELMO_API_KEY="sesame")
        assert result.exit_code == 0, result.output
        assert "accuracy on 41 sentences of the test part, %\n  learned " in result.output
        assert f"{server.url} serves task yes" in result.output
        with server.client(headers={"Authorization": "Bearer sesame"}) as client:
            assert client.get("/tasks/yes").json()["revision"]

        taken = elmo("fit", "yes", *files, *url, ELMO_API_KEY="sesame")
        assert taken.exit_code == 1 and "--force replaces it" in taken.output
        again = elmo("fit", "yes", *files, *url, "--force", ELMO_API_KEY="sesame")
        assert again.exit_code == 0, again.output
        refused = elmo("fit", "yes", *files, *url)
        assert refused.exit_code == 1 and "401" in refused.output
    assert elmo("fit", "yes", *files, "--model", SMALL, "--out", here).exit_code == 0

    (task, numbers), (there, others) = learned(tasks), learned(here)
    assert learned(kept) == (task, numbers)
    assert task == there
    # The worker and this process may have other threads, and so other sums: 1e-6 of a vector.
    np.testing.assert_allclose(numbers, others, rtol=0, atol=1e-3)
    assert {file.name for file in (kept / "yes.fit").iterdir()} == {
        "head.safetensors",
        "report.json",
    }
