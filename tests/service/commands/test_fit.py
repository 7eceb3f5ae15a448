"""`elmo fit`: options, refusals, a server that serves its file or gives the layers (`--server`)."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from elmo_model.models.opening import open_model
from elmo_model.tasks.comparison import digest
from elmo_model.tasks.readers import Reading, read_parts
from elmo_model.text.tokenizers import tokenizer
from tests.support.checkpoints import poisoned_by, write_pair
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
    path.write_text("\n".join(["label\ttext", *lines, ""]), encoding="utf-8")
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


def test_the_score_of_the_report_is_that_of_task_and_head(fitted: Path) -> None:
    """From the vectors of all layers alone: mixed by the task file, mapped by the stored head."""
    lines = (fitted / "test.tsv").read_text().splitlines()[1:]
    examples = [line.split("\t") for line in lines]
    folder = fitted / "tasks" / "first.fit"
    task = json.loads((fitted / "tasks" / "first.json").read_text())
    report = json.loads((folder / "report.json").read_text())
    with safe_open(folder / "head.safetensors", "np") as head:
        labels = json.loads(head.metadata()["labels"])
        weight, bias = head.get_tensor("weight"), head.get_tensor("bias")
    shares = np.exp(task["weights"]) / np.exp(task["weights"]).sum()
    vectors = open_model(SMALL).embed([text.split() for _, text in examples])
    right = 0
    for (label, _), layers in zip(examples, vectors, strict=True):
        vector = task["gamma"] * np.einsum("l,lnd->nd", shares, layers.numpy()).mean(0)
        right += labels[int((weight @ vector + bias).argmax())] == label
    assert report["mixtures"]["learned"]["scores"] == pytest.approx([right / len(examples)])
    assert task["fit"]["score"] == pytest.approx(right / len(examples))
    assert task["fit"]["measure"] == "accuracy"


@pytest.mark.parametrize(
    ("folder", "chosen", "usual"),
    [("seqvec", None, "characters"), ("mine", None, "moses"), ("seqvec", "ptb", "ptb")],
)
def test_text_is_split_as_the_service_splits_it(
    tmp_path: Path, folder: str, chosen: str | None, usual: str
) -> None:
    """By the model that lies at the path, unless a tokenizer is named."""
    shutil.copytree(SMALL, tmp_path / folder)
    train = tmp_path / "train.tsv"
    train.write_text("label\ttext\n" + "".join(f"{w}\tI don't see {w}.\n" for w in WORDS * 8))
    named = ("--tokenizer", chosen) if chosen else ()

    result = elmo(
        *("fit", "first", "--kind", "sentence", "--train", train, "--seeds", 1, *named),
        *("--model", tmp_path / folder, "--out", tmp_path / "tasks"),
    )

    assert result.exit_code == 0, result.output
    task = json.loads((tmp_path / "tasks" / "first.json").read_text())
    expected, _ = read_parts(train, None, Reading("sentence", tokenizer(usual)))
    assert task["fit"]["data"] == digest(expected)


def test_a_model_whose_vectors_are_not_finite_is_refused(tmp_path: Path) -> None:
    model = poisoned_by(write_pair(tmp_path / "model"), "~")
    train = tmp_path / "train.tsv"
    train.write_text("label\ttext\n" + "x\tThe cat\ny\tThe ~ sat\n" * 20)

    result = elmo(
        *("fit", "x", "--kind", "sentence", "--train", train, "--model", model, "--out", tmp_path)
    )

    assert result.exit_code == 1
    assert "the vectors of 'The ~ sat' are not finite" in result.stderr


def test_the_table_is_printed_before_the_task_is_written(fitted: Path) -> None:
    (fitted / "file").write_text("")
    result = elmo(
        *("fit", "first", "--kind", "sentence", "--train", fitted / "train.tsv", "--seeds", 1),
        *("--model", SMALL, "--out", fitted / "file" / "below"),
    )

    assert result.exit_code == 1 and "file" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("take ")


COLUMNS = {
    "IOB2": "Anna B-PER\nSmith I-PER\nmet O\nPeter B-PER\n\n",
    "IOB1": "Anna I-PER\nSmith I-PER\nmet O\nPeter I-PER\n\n",
    "BIOES": "Anna B-PER\nSmith E-PER\nmet O\nPeter S-PER\n\n",
    "fields with spaces": "Anna \tB-PER \nSmith\tI-PER\nmet\t O\nPeter\tB-PER\n\n",
    "comments": "# id 5\tdomain=en\nAnna _ B-PER\nSmith _ I-PER\nmet _ O\nPeter _ B-PER\n\n",
    "an empty last column": "Anna\tB-PER\t\nSmith\tI-PER\t\nmet\tO\t\nPeter\tB-PER\t\n\n",
}


def fit_columns(folder: Path, name: str, train: str, test: str) -> dict[str, Any]:
    """Fit on two texts of columns; return the report."""
    for file, text in ((f"{name}.train", train), (f"{name}.test", test)):
        (folder / file).write_text(text)
    result = elmo(
        *("fit", name, "--kind", "token", "--train", folder / f"{name}.train", "--seeds", 1),
        *("--test", folder / f"{name}.test", "--model", SMALL, "--out", folder),
    )
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads((folder / f"{name}.fit" / "report.json").read_text())
    assert ("span F1" in result.stdout) is (report["measure"] == "span_f1")
    task = json.loads((folder / f"{name}.json").read_text())
    assert task["fit"]["measure"] == report["measure"]
    assert task["fit"]["score"] == report["mixtures"]["learned"]["mean"]
    return report


def test_the_form_of_spans_and_of_columns_changes_nothing(tmp_path: Path) -> None:
    expected = fit_columns(tmp_path, "iob2", COLUMNS["IOB2"] * 12, COLUMNS["IOB2"] * 2)
    assert expected["measure"] == "span_f1" and expected["mixtures"]["learned"]["mean"] == 1.0

    for number, (form, text) in enumerate(COLUMNS.items()):
        report = fit_columns(tmp_path, f"f{number}", text * 12, COLUMNS["IOB2"] * 2)
        assert report == expected, form
    io = fit_columns(tmp_path, "test", COLUMNS["IOB2"] * 12, COLUMNS["BIOES"] * 2)
    assert io == expected


def test_a_test_part_without_a_span_is_scored_by_its_accuracy(tmp_path: Path) -> None:
    masked = "Anna O\nSmith O\nmet O\nPeter O\n\n"
    report = fit_columns(tmp_path, "none", COLUMNS["IOB2"] * 12, masked * 3)

    assert (report["measure"], report["scored_spans"]) == ("accuracy", 0) and report["reason"]
    assert report["mixtures"]["learned"]["mean"] == 0.25


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    rows = [f"{label}\t{label} {number}" for number in range(20) for label in ("yes", "no")]
    for name, step in (("train", 1), ("test", -1)):
        lines = ["label\ttext", *rows[::step], "no\t", ""]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines))
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    return ["--kind", "sentence", "--train", train, "--test", test, "--seeds", 1]


def learned(folder: Path) -> tuple[dict[str, Any], list[float]]:
    """Return the task of a folder without the names that its model has, and its numbers."""
    task: dict[str, Any] = json.loads((folder / "yes.json").read_text())
    for members in (task, task["fit"]):
        del members["model"]
    scores = [task["fit"].pop("score"), task["fit"].pop("error")]
    return task, [*task.pop("weights"), task.pop("gamma"), *scores]


def test_a_fit_on_a_server_is_that_of_this_process(tmp_path: Path, files: list[object]) -> None:
    here, kept = tmp_path / "here", tmp_path / "kept"
    with running(tmp_path / "server", model=SMALL, api_keys="sesame") as server:
        url = ("--server", server.url)
        result = elmo("fit", "yes", *files, *url, "--out", kept, ELMO_API_KEY="sesame")
        assert result.exit_code == 0, result.output
        assert "accuracy on 41 sentences of the test part, %\n" in result.output
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
