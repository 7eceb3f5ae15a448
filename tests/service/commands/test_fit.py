"""`elmo fit`: options, refusals, a server that serves its file or gives the layers (`--server`)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from elmo_serve.models.in_process import open_network
from elmo_serve.output import Output
from tests.support.command_line import elmo
from tests.support.servers import SMALL, running

WORDS = ("cat", "sat", "The", "mat")


def write_examples(path: Path, count: int, seed: int) -> list[tuple[list[str], str]]:
    """Write sentences whose label is the first word; return them."""
    source = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        words = [WORDS[n] for n in source.integers(4, size=5)]
        made.append((words, words[0]))
    lines = [f"{label}\t{' '.join(words)}" for words, label in made]
    path.write_text("\n".join(["label\tsentence", *lines, ""]), encoding="utf-8")
    return made


@pytest.fixture
def fitted(tmp_path: Path) -> Path:
    write_examples(tmp_path / "train.tsv", 40, seed=0)
    write_examples(tmp_path / "test.tsv", 20, seed=1)
    result = elmo(
        *("fit", "first", "--kind", "sentence", "--train", tmp_path / "train.tsv"),
        *("--test", tmp_path / "test.tsv", "--model", SMALL, "--seeds", 1),
        *("--out", tmp_path / "tasks"),
    )
    assert result.exit_code == 0, result.output
    assert "learned" in result.output and "average" in result.output
    return tmp_path


def test_a_server_serves_the_mix_that_was_learned(fitted: Path) -> None:
    task = json.loads((fitted / "tasks" / "first.json").read_text())
    shares = np.exp(task["weights"]) / np.exp(task["weights"]).sum()
    sentences = [["The", "cat", "sat"], ["mat"]]
    with (
        running(fitted / "server", model=SMALL, tasks=fitted / "tasks") as server,
        server.client() as client,
    ):
        served = client.post("/embed", json={"sentences": sentences, "task": "first"}).json()
        layers = client.post("/embed", json={"sentences": sentences}).json()
        assert "left out" not in server.log  # the folder first.fit is no task file

    for found, each in zip(served["embeddings"], layers["embeddings"], strict=True):
        expected = task["gamma"] * np.einsum("l,lnd->nd", shares, np.array(each))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_a_task_is_replaced_only_by_force(fitted: Path) -> None:
    again: list[object] = ["fit", "first", "--kind", "sentence", "--seeds", 1, "--model", SMALL]
    again += ["--train", fitted / "train.tsv", "--out", fitted / "tasks"]

    refused = elmo(*again)

    assert refused.exit_code == 1 and "exists; --force replaces it" in refused.output
    assert elmo(*again, "--force").exit_code == 0


def test_the_score_is_found_again_from_served_vectors(tmp_path: Path) -> None:
    """The head maps the mean of a sentence's mixed vectors, as a server has it."""
    write_examples(tmp_path / "train.tsv", 40, seed=0)
    test = write_examples(tmp_path / "test.tsv", 20, seed=1)
    result = elmo(
        *("fit", "first", "--kind", "sentence", "--train", tmp_path / "train.tsv", "--seeds", 1),
        *("--test", tmp_path / "test.tsv", "--model", SMALL, "--out", tmp_path / "tasks"),
    )
    assert result.exit_code == 0, result.output
    task = json.loads((tmp_path / "tasks" / "first.json").read_text())
    report = json.loads((tmp_path / "tasks" / "first.fit" / "report.json").read_text())
    with safe_open(tmp_path / "tasks" / "first.fit" / "head.safetensors", "np") as head:
        labels = json.loads(head.metadata()["labels"])
        weight, bias = head.get_tensor("weight"), head.get_tensor("bias")
    output = Output(weights=task["weights"], gamma=task["gamma"], pooling="mean")
    network = open_network(str(SMALL), device="cpu")
    served = np.array(network.embed([words for words, _ in test], output))

    found = [labels[int(number)] for number in (served @ weight.T + bias).argmax(1)]
    right = np.mean([one == two for one, (_, two) in zip(found, test, strict=True)])
    assert report["mixtures"]["learned"]["scores"][0]["accuracy"] == pytest.approx(right)


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
    here, kept = tmp_path / "here", tmp_path / "kept"
    with running(tmp_path / "server", model=SMALL, api_keys="sesame") as server:
        url = ("--server", server.url)
        result = elmo("fit", "yes", *files, *url, "--out", kept, ELMO_API_KEY="sesame")
        assert result.exit_code == 0, result.output
        assert "accuracy on 41 sentences of the test part, %\n  learned " in result.output
        assert f"copy {kept / 'yes.json'} into the server's ELMO_TASKS" in result.output

        nowhere = elmo("fit", "yes", *files, *url, ELMO_API_KEY="sesame")
        assert nowhere.exit_code == 2 and "--out" in nowhere.output
        refused = elmo("fit", "yes", *files, *url, "--out", tmp_path)
        assert refused.exit_code == 1 and "401" in refused.output
    assert elmo("fit", "yes", *files, "--model", SMALL, "--out", here).exit_code == 0

    (task, numbers), (there, others) = learned(kept), learned(here)
    assert task == there
    # The worker and this process may have other threads, and so other sums: 1e-6 of a vector.
    np.testing.assert_allclose(numbers, others, rtol=0, atol=1e-3)
    assert {file.name for file in (kept / "yes.fit").iterdir()} == {
        "head.safetensors",
        "report.json",
    }
